// Package guard keeps a filter of the keys in an embedded store, so that reads of absent keys never
// reach the store. Packages pebbleguard, bboltguard and badgerguard, each a module of its own below
// this one, put a guard in front of Pebble, bbolt and Badger: a program changes an import and its
// Open. For another engine, see "An adapter" below. README.md shows what changes in a program.
//
// # What it promises
//
// A guard never hides a key that the store has (C9): not after a kill or a power loss, not when the
// filter or the store is lost or restored from a backup, and not during a rebuild of the filter. In
// doubt it says "maybe", and the store is asked as if there were no filter.
//
//	what happened                                 what you get
//	a kill, a power loss                          the filter as it was, with the keys that it lacks: from
//	                                              the outbox, or from the store
//	the filter is lost, damaged, or that of       "maybe" for all keys, until the filter is rebuilt in
//	another store                                 the background: it reads all keys once
//	a kill while a Pebble store is opened         "maybe" for all keys, until the filter is rebuilt
//	the filter is restored from a backup          the same, unless the outbox or the store tells which
//	                                              keys the filter lacks
//	the store is restored from a backup           the same, unless no key has been removed from the filter
//	                                              since
//	another guard has opened the store since:     "maybe" for all keys, until the filter is rebuilt; the
//	a tool, or a program with another Prefix      same for a store from before guards had an owner
//	Options.Covers is another function            the same if CoversVersion says so; without
//	                                              CoversVersion, at every Open
//	the options ask for another rate, or for      the filter is rebuilt in the background, and answers
//	twice the capacity of the filter, or more     meanwhile
//	the disk of the filter is full or fails       "maybe" for all keys until the store is opened again;
//	                                              commits go on
//	the filter is full                            it is rebuilt, twice as large, in the background; until
//	                                              then new keys are kept in memory
//	the store is closed or killed before such     a rebuild when it is opened again; if Pebble has flushed
//	a rebuild has ended                           these keys, "maybe" for all keys until the filter is rebuilt
//	a rebuild runs out of room for new keys       it begins again at once, with at least twice the room;
//	                                              the old filter answers meanwhile, if there is one
//	as many keys come and go, as in a queue       the same; later rebuilds make the filter larger, and are
//	                                              rare
//	a commit fails and nobody knows whether       its keys stay in the filter; its deletes are not done
//	it happened
//	the store is opened without the guard, as     "maybe" for all keys, until the filter is rebuilt; but
//	after a step back to an older program         if the store is not Watched, keys may be hidden: call
//	                                              Rebuild, or remove the filter file, before the store
//	                                              is opened with the guard again
//	something else writes to the store, past      keys may be hidden: call Doubt before and Rebuild after
//	the guard, while the guard has it open
//	two guards have the store open at once        keys may be hidden: the engines here do not allow it
//
// # Terms
//
// Some of these words mean something else in the other packages.
//
//	store       the database that the guard stands in front of
//	entry       a key of the guard's own in the store, with its value
//	outbox      the entries with the hashes of keys that the filter may not have durably
//	overflow    the hashes that found no room in the filter: they wait in memory for a rebuild
//	position    a number that a store gives each transaction, in their order; see Ordered
//	interval    Options.CommitInterval
//	mark        putting a new random number, the token, into the store and then into the filter
//	stamp       the entry that names the filter and its token
//	owner       the entry that names the filter of the guard that opened the store last
//	gone        of a key: deleted from the store, but still in the filter
//	to pass     of an absent key: the filter says "maybe", and the store is asked
//
// # How
//
// The guard's entries are in the store, and change in the transactions of the program. Five things
// are enough:
//
// The outbox. A transaction that puts keys also puts an entry: their hashes, and the number of the
// filter's operation that inserted the first of them. No sync is added to a commit: the filter becomes
// durable by its own timer. After a crash, Open repeats the operations in the outbox that the filter
// does not have durably, each once. Later transactions remove from the outbox what the filter has
// durably.
//
// Positions. With deletes: Rebuild, a store that numbers its transactions needs no outbox: see
// [Ordered]. A sync of the filter first asks for the position of the newest transaction, then takes in
// the keys that are on their way, and then makes the filter durable with that position. A
// transaction's keys are on their way before the transaction has a position, so a durable filter has
// the keys of all transactions up to the position that it names. After a crash, Open asks the store
// for the keys that came after this position, and puts them into the filter. Open may insert a key
// that the filter has, which changes nothing. While keys have overflowed, the filter keeps its
// position. New hashes wait in memory until the filter takes them in, many at a time: a lookup finds
// them there.
//
//	store    a@1  b@2  c@3 │ d@4          the crash comes here: d may be lost or not
//	filter   a    b    c   │ d            durable with position 3; d is in memory, and lost
//	Open     Since(3) yields d if the store has it; then the filter names the last position
//
// Positions may come again: a store that has lost d gives the position of d to the next
// transaction. So Open makes a mark, with a new token and the present position, before there is a
// transaction. The mark also puts the position at which Open began into the stamp: a filter from
// before the mark is taken to have the keys up to that position and no more.
//
// The token. A mark puts a random number into the store, in a transaction that is durable when the
// mark ends, and then into the filter. A key leaves the filter only after a mark that came after its
// delete in the store. So if store and filter have the same token, the filter has all keys of the
// store, except the keys in the outbox, or after its position. This holds whatever crash or backup
// they come from.
//
// The owner. Guards with different prefixes do not see each other's entries, but all have the owner in
// the same place, [OwnerName]. A guard names its filter there, durably, before the first transaction
// of the program. It uses a filter only if the owner names it. Otherwise another guard has opened
// the store since, and the filter may lack keys of that guard.
//
// The rebuild. A new filter is made from a snapshot of the store, taken at an instant at which no
// operation of the filter is under way. Operations after that instant are done again in the new one. The
// rebuild also puts the keys of transactions that are being committed at that instant into the new
// filter. The new filter has twice the capacity that the keys need. In a queue there are few keys at any
// instant, but many come during a rebuild and are deleted before the next one. Then the filter also has
// a reserve for many times as many keys, so that rebuilds take a small part of the time. After some
// intervals without a new key, the guard gives the reserve back.
//
// # Deletes
//
// With [Exact], the transaction's entry has the hashes of the keys that it deletes. Once an interval,
// a mark removes these entries, and then the filter deletes the hashes. A crash in between leaves
// the hashes in the filter, which does no harm. No delete is ever done twice: the second one would
// take away another key. To know which keys a transaction really adds and deletes, the guard looks
// up in the store each key that may be there. No other transaction that names such a key can change
// it until the commit has ended.
//
// A transaction that deletes keys which it cannot name, such as those of a range, says so by
// [Tx.DeleteUnknown]: the keys are gone. With Exact it says so before Prepare, and the adapter keeps
// the transaction apart from all other transactions, from their Prepare to their Done: these do not
// put a key that the store has, since the snapshot of a rebuild has it. The transaction itself may
// put keys that it deletes. For an instant a snapshot may lack them, so a rebuild takes them from
// the transaction.
//
// With [Rebuild], a delete does not change the filter: the key stays until the next rebuild. A put
// inserts the key unless the filter has it.
//
// # When a rebuild begins
//
//	the filter may lack keys of the store         at Open, or after Guard.Doubt and Guard.Rebuild
//	a key has overflowed
//	the filter is 90 % full
//	the options ask for another filter            at Open: another rate, or at least twice the capacity
//	most of its keys are gone                     and the gone keys take much of its room: a sixteenth or
//	                                              more
//	it is much too large                          the store has less than an eighth of the keys that the
//	                                              filter has room for, and the options ask for a smaller
//	                                              filter
//	too many absent keys pass                     because of keys that are gone
//
// # What passes
//
// Of the absent keys that the filter does not have, the share that was asked for passes. A key that
// is gone passes as long as the filter has it: with Exact until the next mark, with Rebuild until
// the next rebuild. A key of a transaction that did not happen passes, too. With Rebuild, a program
// may mostly look up such keys. Even then at most twice the share that was asked for passes, plus,
// before each rebuild, as many lookups as a sixteenth of the keys in the filter, and some hundreds
// more.
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
// While it serves, a guard skips the store for absent keys. Building and off, it answers "maybe".
//
// # Rules
//
//	G1  A key is in the filter, or on its way into it, before its transaction is visible. It leaves
//	    the filter only after its delete is durable in the store: after a mark. A reader that began
//	    before the delete still finds the key: see View.
//	G2  No sync is added to a commit. A transaction that puts keys has an entry with their hashes and
//	    the number of an operation. Open does the operations that the filter lacks, each once. It
//	    rebuilds the filter instead unless filter and store have the same identity and token, and
//	    the filter has at least the operations that are no longer in the outbox. An Ordered store
//	    has no such entries: Open inserts the keys that it has after the position of the filter.
//	G3  With deletes: Exact, the filter has each key of the store once. With deletes: Rebuild, it has
//	    each key, and also keys that are gone. It is rebuilt when these are too many, or when it is
//	    90 % full.
//	G4  For everything else that an engine can do to its keys, the guard follows the operation, or
//	    rebuilds the filter, or refuses the operation. The package of the engine has the table.
//	G5  Stats has the measured rate of false positives beside the rate asked for.
//	G6  All guards of a store share one entry, the owner, whatever their options. Open uses a filter
//	    only if the owner names it, and if it is for the keys that Options.Covers and CoversVersion
//	    name. Otherwise it makes another filter the owner before any transaction, and builds that.
//	G7  A Watched store tells Open whether something may have written to it past the guard. If so, Open
//	    makes another filter, as in G6, unless the store is Ordered and yields these keys, too.
//
// # An adapter
//
// An engine needs a [Store], four methods, and three calls around each commit: Begin and Prepare
// before it, Done after it. An [Ordered] store has two more methods; before it forgets keys that
// Since would yield, it calls [Guard.Sync]. A [Watched] store has one more: without it, nobody notices
// a step back to a program without the guard. The entry with the key [OwnerKey] is at [OwnerName],
// even if the other entries have a prefix. The example of this package, in example_test.go, is the
// whole adapter of an imaginary store, and directory example/sqlite has an adapter for a table of
// SQLite.
package guard
