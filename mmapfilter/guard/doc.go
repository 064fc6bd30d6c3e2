// Package guard keeps a filter of the keys in an embedded store, so that reads of absent keys never
// reach the store. Packages pebbleguard, bboltguard and badgerguard, each a module of its own below
// this one, put a guard in front of Pebble, bbolt and Badger: a program changes its call of Open, and
// the types that it names. For another engine, see "An adapter" below. README.md shows what changes in
// a program.
//
// # What it promises
//
// A guard never hides a key that the store has (C9): not after a kill or a power loss, not when the
// filter or the store is lost or restored from a backup, and not during a rebuild of the filter. When
// in doubt, the guard says "maybe", and the read goes to the store as if there were no filter.
//
//	what happened                                 what you get
//	a kill, a power loss                          the filter as it was; Open adds the keys that it lacks,
//	                                              from the outbox or from the store
//	the filter is lost, damaged, or that of       "maybe" for all keys, until the filter is rebuilt in
//	another store                                 the background, which reads all keys once
//	a kill while a Pebble store is opened         "maybe" for all keys, until the filter is rebuilt
//	the filter is restored from a backup          the same, unless the outbox or the store tells which
//	                                              keys the filter lacks
//	the store is restored from a backup           the same, unless store and filter still have the same
//	                                              token
//	another guard has opened the store since      "maybe" for all keys, until the filter is rebuilt; the
//	(a tool, or a program with another Prefix)    same for a store from before guards had an owner
//	Options.Covers is another function            the same if CoversVersion differs; without
//	                                              CoversVersion, the same at every Open
//	the options ask for another rate, or for      the filter is rebuilt in the background, and the old
//	twice the capacity of the filter, or more     filter answers meanwhile
//	the disk of the filter is full or fails       "maybe" for all keys until the store is opened again;
//	                                              commits go on
//	the filter is full                            it is rebuilt, twice as large, in the background; until
//	                                              then new keys are kept in memory
//	the store is closed or killed before this     another rebuild when the store is opened again; if Pebble
//	rebuild has ended                             has flushed the keys, "maybe" for all keys until it ends
//	a rebuild runs out of room for new keys       it begins again at once, with at least twice the room;
//	                                              the old filter answers meanwhile, if there is one
//	keys come and go all the time, as in a queue  the same; later rebuilds make the filter larger, and are
//	                                              rare
//	a commit fails, and nobody knows whether      the keys that it puts stay in the filter, and so do the
//	it happened                                   keys that it deletes
//	the store was opened without the guard, as    "maybe" for all keys, until the filter is rebuilt; but
//	after a step back to an older program         if the store is not Watched, keys may be hidden: call
//	                                              Rebuild, or remove the filter file, before the store
//	                                              is opened with the guard again
//	something writes to the store and bypasses    keys may be hidden: call Doubt before and Rebuild after
//	the guard, while the guard has it open
//	two guards have the store open at once        keys may be hidden; the three engines do not allow it
//
// # Terms
//
// Some of these words mean something else in the other packages.
//
//	store       the database that the guard stands in front of
//	entry       a key that the guard itself keeps in the store, with its value
//	outbox      the entries with the hashes of keys that the filter may not have durably
//	overflow    hashes that found no room in the filter, and wait in memory for a rebuild
//	position    the number of a transaction; a store numbers transactions in their order; see Ordered
//	interval    Options.CommitInterval
//	mark        storing a new random number, the token, in the store and then in the filter
//	stamp       the entry that names the filter and its token
//	owner       the entry that names the filter of the guard that opened the store last
//	gone        of a key: deleted from the store, but still in the filter
//	to pass     of an absent key: the filter says "maybe", and the lookup goes to the store
//
// # How
//
// The guard's entries are in the store, and change in the transactions of the program. The guard works
// by five means:
//
// The outbox. A transaction that puts keys also puts an entry, with their hashes and the number of the
// filter operation that inserted the first of them. A commit needs no further sync: once an interval,
// the guard makes the filter durable, and then removes from the outbox, in a transaction of its own,
// what the filter has durably. After a crash, Open repeats the operations in the outbox that the
// filter does not have durably, each once, unless Open itself is killed.
//
// Positions. If Options.Deletes is Rebuild, a store that numbers its transactions needs no outbox: see
// [Ordered]. New hashes wait in memory, where lookups find them, and are inserted into the filter many
// at a time. A sync of the filter first asks for the position of the newest transaction, then inserts
// the hashes that wait, and then makes the filter durable with that position. The hashes of a
// transaction wait in memory before the transaction gets its position, so a durable filter has the
// keys of all transactions up to the position that it names. After a crash, Open asks the store for
// the keys that came after this position, and puts them into the filter. If the filter has such a key
// already, nothing changes. While some keys have overflowed, the filter keeps its position.
//
//	store    a@1  b@2  c@3 │ d@4          the crash comes here: d may be lost or not
//	filter   a    b    c   │ d            durable with position 3; d is in memory, and lost
//	Open     Since(3) yields d if the store has it; then the filter names the last position
//
// Positions may be reused: a store that has lost d gives the position of d to the next transaction. So
// Open makes a mark, with a new token and the present position, before the first transaction. The mark
// also puts the position at which Open began into the stamp. Open does not rely on a filter from
// before the mark for keys after that position.
//
// The token. A mark puts a random number into the store, in a transaction that is durable when the
// mark ends, and then into the filter. A key leaves the filter only after a mark that came after the
// key's delete in the store. So if store and filter have the same token, the filter has all keys of
// the store, except keys in the outbox, or keys after the filter's position. This holds whatever crash
// or backup store and filter come from.
//
// The owner. Guards with different prefixes do not see each other's entries, but all keep the owner in
// the same place, [OwnerName]. A guard names its filter there, durably, before the first transaction
// of the program. A guard uses a filter only if the owner names this filter. Otherwise another guard
// has opened the store since, and the filter may lack keys from that time.
//
// The rebuild. A rebuild builds a new filter from a snapshot of the store, taken at an instant at
// which no operation of the filter is in progress. Operations after that instant are repeated in the
// new filter. The rebuild also puts the keys of transactions that are being committed at that instant
// into the new filter. The new filter has twice the capacity that the keys need. A queue has few keys
// at any instant, but many come during a rebuild and are deleted before the next one. In this case the
// filter also gets a reserve for many times as many keys, so that rebuilds take a small part of the
// time. After some intervals without a new key, the guard gives the reserve back.
//
// # Deletes
//
// With [Exact], the entry of a transaction also has the hashes of the keys that the transaction
// deletes. Once an interval, a mark removes these entries, and then the filter deletes the hashes. A
// crash in between leaves the hashes in the filter, which does no harm. No delete is ever done twice,
// since the second one could remove another key. To know which keys a transaction really adds and
// deletes, the guard looks up in the store each key that may be there. No other transaction that names
// such a key can change it until the commit has ended.
//
// A transaction that deletes keys which it cannot name, such as those of a range, says so by
// [Tx.DeleteUnknown]; these keys are gone then. With Exact it says so before Prepare, and until its
// Done the adapter lets no other transaction be between Prepare and Done. The reason: other
// transactions do not insert a key that the store has already, since the snapshot of a rebuild has
// this key. The transaction itself may put keys that it deletes. A snapshot may lack them for an
// instant, so a rebuild takes them from the transaction.
//
// With [Rebuild], a delete does not change the filter: the key stays until the next rebuild. A put
// inserts the key unless the filter already has it.
//
// # When a rebuild begins
//
//	the filter may lack keys of the store         at Open, or after Guard.Doubt and Guard.Rebuild
//	a key has overflowed
//	the filter is 90 % full
//	the options ask for another filter            at Open: another rate, or at least twice the capacity
//	most keys of the filter are gone              and they take much of its room: a sixteenth or more
//	the filter is much too large                  the store has fewer than an eighth of the keys that the
//	                                              filter has room for, and the options ask for a smaller
//	                                              filter
//	too many absent keys pass                     because of keys that are gone
//
// # What passes
//
// Of the absent keys that the filter does not have, the requested share passes. A key that is gone
// passes as long as the filter has it: with Exact until the next mark, with Rebuild until the next
// rebuild. A key of a transaction that did not happen passes, too. With Rebuild, a program may look up
// mostly keys that are gone. Even then at most twice the requested share of the lookups passes, and in
// addition, before each rebuild, as many lookups as a sixteenth of the keys in the filter, and a few
// hundred more.
//
// # States
//
//	          Open: the filter has all keys
//	┌───────────────────────────────────────────────┐
//	│   Open: it does not       a rebuild ends      ▼
//	├────────────────▶ building ────────────▶ serving ◀──┐ a rebuild begins and ends:
//	│                     │   ▲                  │  └────┘ it serves meanwhile
//	│   Open: there can   │   │ more keys wait   │
//	│   be no filter      │   │ than memory has  │
//	└───────▶ off ◀───────┘   └──────────────────┤
//	           ▲      the filter fails           │
//	           └─────────────────────────────────┘
//
// In state serving, a guard skips the store for absent keys. In states building and off, it answers
// "maybe" for every key.
//
// # Rules
//
//	G1  A key is in the filter, or waits in memory for it, before its transaction is visible. It leaves
//	    the filter only after a mark, when its delete is durable in the store. A reader that began
//	    before the delete still finds the key: see View.
//	G2  A commit needs no further sync. A transaction that puts keys has an entry with their hashes and
//	    the number of an operation. Open does the operations that the filter lacks. But if filter and
//	    store differ in identity or token, or if the filter lacks operations that are no longer in the
//	    outbox, Open rebuilds the filter. An Ordered store has no such entries: Open inserts the keys
//	    that came into the store after the position of the filter.
//	G3  With Exact, the filter has each key of the store once. With Rebuild, it has each key, and also
//	    keys that are gone. It is rebuilt when too many keys are gone, or when it is 90 % full.
//	G4  For everything else that an engine can do to its keys, the guard follows the operation, or
//	    rebuilds the filter, or refuses the operation. The package of each engine has a table.
//	G5  Stats has the measured rate of false positives and the rate that the options ask for.
//	G6  All guards of a store share one entry, the owner, whatever their options. Open uses a filter
//	    only if the owner names it, and if it is for the keys that Options.Covers and CoversVersion
//	    name. Otherwise Open puts the name of another filter into the owner before any transaction, and
//	    builds this filter.
//	G7  A Watched store tells Open whether a write may have bypassed the guard. If so, Open builds
//	    another filter, as in G6, unless the store is Ordered and yields the keys of such writes, too.
//
// # An adapter
//
// An adapter needs a [Store], which is four methods, and three calls around each commit: Begin and
// Prepare before it, Done after it. An [Ordered] store has two more methods; before it forgets keys
// that Since would yield, it calls [Guard.Sync]. A [Watched] store has one more method; without this
// method, nobody notices a step back to a program without the guard. The entry with the key [OwnerKey]
// has the full name [OwnerName], whatever the prefix of the other entries. The example of this
// package, in example_test.go, is the whole adapter of an imaginary store, and directory
// example/sqlite has an adapter for a table of SQLite.
package guard
