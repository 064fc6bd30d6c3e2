// Package badgerguard puts a filter of its keys in front of a Badger store, so that reads of absent
// keys do not reach the store. It wraps badger.DB, badger.Txn and what they hand out: a program changes
// badger.Open to [Open], and the names of the types: README.md shows a program before and after.
// Package guard says what the filter promises, and how it keeps these promises.
//
// # Reads
//
// Get and Has of a read transaction ask the filter first. In a transaction that may write, they do
// so only if the store does not detect conflicts, and not for keys that the transaction has written.
// If the store detects conflicts, Get and Has of a transaction that may write always reach the
// store: Badger must see the read, since the transaction has to fail if another one creates the key.
// [DB.Has] begins no transaction for a key that the filter knows to be absent. Iterators reach the
// store, and skip the guard's entries.
//
// # Writes
//
// A commit puts its keys into the filter first, and then Badger gives the transaction its version.
// With deletes: Rebuild, that is all: nothing is added to the transaction. With deletes: Exact, an
// entry with their hashes, the outbox, is part of the same transaction of Badger, and so is the
// note, so that a crash loses all or none. The guard reads nothing in that transaction, so there
// are no new conflicts. If the transaction has no room for the entry, the entry is committed and
// synced before the transaction; so the limits of a transaction stay as in Badger.
//
//	operation                            what the guard does
//	Txn.Set, SetEntry, Delete            follows the key when the transaction is committed
//	Commit, CommitWith                   follow the keys; after ErrConflict they take out of the filter
//	                                     what they have put into it
//	Discard                              nothing: the filter has not seen the keys
//	Entry.ExpiresAt, WithTTL             follows the key; nobody says when it is gone, so it stays in the
//	                                     filter until too many absent keys pass and the filter is rebuilt
//	WriteBatch                           follows each of its transactions
//	WriteBatch.Write, WriteList          refused: they come with versions
//	GetSequence, GetMergeOperator        keep their keys in the filter for as long as the DB is open, since
//	                                     Badger writes them by itself
//	DropPrefix, DropAll                  every answer is "maybe" until the filter has been rebuilt, which is
//	                                     before they return; reserved prefixes are refused
//	BanNamespace                         keeps the keys until the filter is rebuilt; if NamespaceOffset
//	                                     changes, the filter is rebuilt, since they are there again
//	RunValueLogGC                        refused with badger.ErrRejected while keys are dropped: it could
//	                                     bring back keys that were dropped or deleted
//	Flatten                              nothing: it moves keys
//	Subscribe, NewStream, Backup         leave out the reserved keys
//	Load, NewKVLoader, NewStreamWriter   refused: use the store without a guard, and remove the filter
//	managed mode, CommitAt, ...At        refused: a program that chooses versions changes the past
//	InMemory                             refused: there is nothing to save
//	ReadOnly                             the filter is used as it is, or not at all
//
// What is refused returns [ErrNotFollowed]. Writes to reserved keys return [ErrReserved].
//
// # Crashes
//
// A durable filter names a version up to which it has all keys. After a kill, [Open] has Badger yield
// the keys with later versions, and puts them into the filter; it verifies the checksums of the tables
// that have such keys first. From 2^40 versions on, and with deletes: Exact, the outbox has the keys
// that the filter lacks. With SyncWrites off, which is Badger's default, a power loss takes the last
// transactions with their entries, and later transactions get the same versions again. Package guard
// says why this does no harm. Before the guard takes keys out of the filter, it makes the store
// durable: the logs of all memtables, not only the newest one, the value log, and the directory.
// DropPrefix and DropAll remove the stamp, the entry that ties the filter to the store, before they
// begin, so a crash meanwhile has Open rebuild the filter.
//
// # A step back
//
// A program without this package may have written to the store since a guard had it open. With
// deletes: Rebuild, Open puts the keys of its transactions into the filter, as after a kill. For
// this, a sync of the filter first gives a small entry, the note, a new version: a transaction with
// a later version may be another program's. With deletes: Exact, each transaction of the guard sets
// the note. If a version is greater than the note's, Open rebuilds the filter. Open also rebuilds
// it after a kill if a Sequence or a MergeOperator wrote last, or a transaction that had no room
// for the note.
//
// # Reserved keys
//
// Keys that begin with guard.Options.Prefix, "\x00mmapfilter\x00" unless it says otherwise, are the
// guard's, and so is guard.OwnerName with two zero bytes after it, which all guards share. Programs
// do not see them and cannot write them. If NamespaceOffset is used, the prefix must have at
// least NamespaceOffset + 8 bytes, so that no ban of a namespace hides some of the entries.
//
// # Deletes
//
// With guard.Rebuild, the default, a deleted key stays in the filter until the filter is rebuilt.
// With guard.Exact each write of a key that the filter may have costs a read. A key with a time to
// live is then counted once more each time it is put, and never deleted: guard.Rebuild suits such
// keys better.
//
// A rebuild reads all keys, and verifies the checksums of the tables first: Badger's iterators end at a
// damaged block as if there were no more keys.
//
// # What is not covered
//
// Writes through the embedded badger.DB or badger.Txn: call Guard().Rebuild after them. A program
// without the guard that loads a backup, uses a stream writer or managed mode, or drops keys, and
// any such program with deletes: Rebuild and 2^40 versions: remove the filter after it. A clock
// that is set back: a key that had expired when the filter was rebuilt, or opened after a kill, may
// stay hidden. Keys that come back after Badger has reported their delete, as they may when
// RunValueLogGC has written a deleted value anew and a compaction purges the delete. Damage to the
// lines of a filter that was not closed: it has no checksums. Transactions that are not over when
// the DB is closed.
package badgerguard
