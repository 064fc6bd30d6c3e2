// Package guard keeps a filter of the keys in an embedded store, so that reads of absent keys never
// reach the store. Packages pebbleguard, bboltguard and badgerguard, each a module of its own below
// this one, put it in front of Pebble, bbolt and Badger: a program changes an import and its Open.
// For another engine, see "An adapter" below.
//
// # What it promises
//
// A guard never hides a key that the store has (C9): not after a kill or a power loss, not when the
// filter or the store is lost or put back from a backup, and not while the filter is being rebuilt. In
// doubt it says "maybe", and the store is asked as if there were no filter.
//
//	what happened                                 what you get
//	a kill, a power loss                          the filter as it was, and the keys of the outbox or log in it
//	the filter is lost, damaged, or that of       "maybe" for all keys, until the filter is rebuilt in
//	another store                                 the background: it reads all keys once
//	a kill while a store with a log is opened     the same
//	the filter is put back from a backup          the same, unless the outbox or log has all that it lacks
//	the store is put back from a backup           the same, unless nothing has left the filter since
//	the options ask for another rate, or for      the filter is rebuilt in the background, and answers
//	twice the capacity of the filter, or more     meanwhile
//	the disk of the filter is full or fails       "maybe" for all keys until the store is opened again;
//	                                              commits go on
//	the filter is full                            it is rebuilt, twice as large, in the background; keys
//	                                              that come meanwhile are in memory
//	the store is closed or killed before that     the same when it is opened again, if there is an outbox; with
//	has ended                                     a log, "maybe" for all keys until the filter is rebuilt
//	more keys come while it is rebuilt than it    the rebuild begins again at once, with at least twice the
//	has room for                                  room; the old one answers meanwhile, if there is one
//	as many keys come and go, as in a queue       the same, and the next ones have room for many times as many
//	a commit fails and nobody knows whether       its keys stay in the filter; its deletes are not done
//	it happened
//	something else writes to the store, past      keys may be hidden: call Rebuild, or remove the filter
//	the guard                                     file, before the store is opened with the guard again
//
// # Terms
//
// Some of these words mean something else in the other packages.
//
//	store       the database that the guard stands in front of
//	log         the write-ahead log of the store
//	entry       a key of the guard's own in the store, with its value
//	outbox      the entries with the hashes of keys that the filter may not have durably
//	epoch       the time between two syncs of the filter
//	interval    Options.CommitInterval
//	mark        putting a new random number, the token, into the store and then into the filter
//	stamp       the entry that names the filter and its token
//	to pass     of an absent key: the filter says "maybe", and the store is asked
//
// # How
//
// The guard's own keys, its entries, are in the store, where they change in the transactions of the
// program. Four things are enough:
//
// The outbox. A transaction that puts keys puts an entry with their hashes, and with the number of the
// filter's operation that inserted the first of them. No sync is added to a commit: the filter becomes
// durable by its own timer. After a crash, the operations of the outbox that the filter has not got
// durably are done again, each once. A later transaction removes from the outbox what the filter holds
// durably.
//
// The log. With deletes: Rebuild, a store whose write-ahead log can be read needs no outbox: see
// [Logged]. Open puts the keys of the log into the filter before the store is opened, and the
// filter becomes durable before a flush takes keys out of the log, by [Guard.Flushing]. Epochs tell
// whether the log holds everything that the filter lacks. An epoch is the time between two syncs of
// the filter, and has a number, which the filter has durably when the epoch has ended. Before the
// first transaction of an epoch is committed, the guard puts an entry with its number, and that of
// the epoch before it, into the store, without a sync. So a filter is as good as the store if all
// epochs from the one after its own to the one in the store have their entries in what the store
// reads of its log. A key may be put into the filter twice then, which changes nothing. Hashes wait
// in memory until the filter takes them in, many at a time: a lookup finds them there, and a sync
// waits for them.
//
// The token. A mark puts a random number into the store, in a transaction that is durable when the
// mark ends, and then into the filter. Nothing leaves the filter without a mark between its delete in
// the store and that moment. So if store and filter have the same token, the filter has all keys of the
// store but those in the outbox, or the epochs that it lacks, whatever crash or backup they come from.
//
// The rebuild. The filter is rebuilt from a snapshot of the store, taken at an instant at which
// no operation of the filter is under way; what it does after that instant is done in the new
// filter too. What is on its way into the store at that instant is put into the new filter besides.
// It has twice the capacity that the snapshot needs. If many keys come while a filter is built, and
// are gone when the next one is, as in a queue, the next one has room for many times as many: so
// rebuilds take a small part of the time. When no key has come for some intervals, this room is given
// back.
//
// # Deletes
//
// With [Exact], the transaction's entry has the hashes of the keys that it deletes. Once an interval,
// a mark removes these entries, and then the filter deletes the hashes. A crash in between leaves them
// in the filter. This does no harm. No delete is ever done twice, which would take away another key.
// To know which keys a transaction really adds and deletes, the guard looks up in the store each key
// that may be there. No other transaction can change such a key until the commit has ended.
//
// With [Rebuild], a delete changes nothing. The guard counts how many absent keys pass the filter, and
// rebuilds it when their share is too large because of deleted keys, or when most keys are deleted
// and take much of its room. A key is inserted unless the filter has it.
//
// A key that is deleted passes the filter for as long as that has it: with Exact until the next
// mark, with Rebuild until the next rebuild, and so does one of a transaction that did not happen.
// Of other absent keys the share that was asked for passes. If a program asks mostly for deleted keys,
// at most twice that share of all absent keys passes, and besides, before a rebuild begins, as many as
// a sixteenth of the keys in the filter, and some hundreds.
//
// # States
//
//	          Open: the filter covers the store
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
//	    the filter only after its delete is durable in the store: after a mark. What a reader sees
//	    that began before stays visible to it: see View.
//	G2  No sync is added to a commit. A transaction that puts keys has an entry with their hashes and
//	    the number of an operation. Open does what the filter lacks of them, once, and rebuilds
//	    the filter unless its identity and its token are those of the store, and it has at least the
//	    operations that are no longer in the outbox. If there is a log, its transactions stand for such
//	    entries, and what they lack of it are epochs.
//	G3  With deletes: Exact, the filter has each key of the store once. With deletes: Rebuild, it has
//	    each key, and others, and is rebuilt when they are too many, or when it is 90 % full.
//	G4  What an engine can do besides is followed, or has the filter rebuilt, or is refused. The
//	    package of the engine has the table.
//	G5  Stats has the real rate of false positives beside the one asked for.
//
// # An adapter
//
// An engine needs a [Store], four methods, and three calls around each commit: Begin and Prepare
// before it, Done after it. With a log it is a [Logged], and calls [Guard.Flushing], and
// [Guard.Unlogged] for what does not pass by the log. This is the whole adapter of an imaginary
// store, kv, which has the guard's entries in a table of their own. Open it with [Open] and
// [Options.WithDefaults], as the example does.
//
//	type DB struct {
//		kv *kv
//		g  *guard.Guard
//	}
//
//	func (d *DB) Put(key, value []byte) error {
//		tx := d.g.Begin()
//		tx.Put(key)
//		c := tx.Prepare()
//		if err := d.kv.Update(func(t *kvTx) { t.Set("keys", key, value); change(t, c) }); err != nil {
//			tx.Done(guard.Unknown) // the error does not say that nothing has happened
//			return err
//		}
//		tx.Done(guard.Committed)
//		return nil
//	}
//
//	func (d *DB) Get(key []byte) (value []byte, found bool) {
//		if d.g.Absent(key) {
//			return nil, false
//		}
//		value, found = d.kv.Get("keys", key)
//		d.g.Found(key, found)
//		return value, found
//	}
//
//	func change(t *kvTx, c guard.Changes) {
//		for _, r := range c.Remove {
//			t.DeleteRange("guard", r.From, r.To)
//		}
//		for _, e := range c.Set {
//			t.Set("guard", e.Key, e.Value)
//		}
//	}
//
//	// The rest is the Store that the guard sees.
//
//	func (d *DB) Write(c guard.Changes) error { return d.kv.Update(func(t *kvTx) { change(t, c) }) }
//
//	func (d *DB) Entries() (entries []guard.Entry, err error) {
//		for key, value := range d.kv.Snapshot("guard").Pairs {
//			entries = append(entries, guard.Entry{Key: key, Value: value})
//		}
//		return entries, nil
//	}
//
//	func (d *DB) Snapshot() (guard.Snapshot, error) {
//		s := d.kv.Snapshot("keys")
//		return guard.Snapshot{Keys: s.Keys, Close: s.Close}, nil
//	}
//
//	func (d *DB) Has(key []byte) (bool, error) { return d.kv.Has("keys", key), nil }
package guard
