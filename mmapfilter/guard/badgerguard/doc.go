// Package badgerguard puts a filter of its keys in front of a Badger store, so that reads of absent
// keys do not reach the store. It wraps badger.DB, badger.Txn and what they return: a program changes
// badger.Open to [Open], and the names of the types. README.md shows a program before and after.
// Package guard says what the filter promises, and how it keeps these promises.
//
// # Reads
//
// Get and Has of a read transaction ask the filter first. In a transaction that may write, they do so
// only if the store does not detect conflicts, and not for keys that the transaction has written. If
// the store detects conflicts, Get and Has of a transaction that may write always reach the store:
// Badger must see the read, since the transaction must fail if another transaction creates the key.
// [DB.Has] begins no transaction for a key that the filter knows to be absent. Iterators reach the
// store, and skip the guard's entries.
//
// # Writes
//
// A commit puts its keys into the filter first, and then Badger gives the transaction its version. If
// Options.Deletes is Rebuild, nothing is added to the transaction. If it is Exact, the same Badger
// transaction also has an entry with the hashes of the keys (for the outbox) and the note (see "A step
// back"), so that a crash loses all of these or none. The guard reads nothing in that transaction, so
// there are no new conflicts. If the transaction has no room for the entry, the entry is committed and
// synced before it; so a transaction has the same limits as in Badger.
//
//	operation                            what the guard does
//	Txn.Set, SetEntry, Delete            follows the key when the transaction is committed
//	Commit, CommitWith                   follows the keys; after ErrConflict it soon takes out of the
//	                                     filter what it has put into it
//	Discard                              nothing: the filter has not seen the keys
//	Entry.ExpiresAt, WithTTL             follows the key; nobody learns when it expires, so it stays in the
//	                                     filter until too many absent keys pass and the filter is rebuilt
//	WriteBatch                           follows each of its transactions
//	WriteBatch.Write, WriteList          refused: their entries have versions
//	GetSequence, GetMergeOperator        keeps their keys in the filter as long as the DB is open, since
//	                                     Badger writes these keys by itself
//	DropPrefix, DropAll                  says "maybe" for every key until the filter has been rebuilt,
//	                                     which is before they return; with Exact, a drop waits for the
//	                                     commits under way and until a rebuild has read the keys, and
//	                                     later commits wait for the drop; reserved prefixes are refused
//	BanNamespace                         keeps the keys until the filter is rebuilt; if NamespaceOffset
//	                                     changes, rebuilds the filter, since the keys are there again
//	RunValueLogGC                        refused with badger.ErrRejected while keys are dropped, and until
//	                                     the rebuild after it has ended: it could bring back keys that
//	                                     were dropped or deleted
//	Flatten                              nothing: it only moves keys
//	Subscribe, NewStream, Backup         leaves out the reserved keys
//	Load, NewKVLoader, NewStreamWriter   refused: use the store without a guard, and remove the filter
//	managed mode, CommitAt, ...At        refused: a program that chooses versions changes the past
//	InMemory                             refused: there is nothing to save
//	ReadOnly                             uses the filter as it is, or not at all
//
// Refused operations return [ErrNotFollowed]. Writes to reserved keys return [ErrReserved].
//
// # Crashes
//
// A durable filter names a version up to which it has all keys. After a kill, [Open] reads the keys
// with later versions from Badger, and puts them into the filter; first it verifies the checksums of
// the tables that have such keys. From 2^40 versions on, and with Exact, the outbox has the keys that
// the filter lacks. With SyncWrites off, which is Badger's default, a power loss loses the last
// transactions together with their entries, and later transactions get the same versions again.
// Package guard says why this does no harm. Before the guard removes keys from the filter, it makes
// the store durable: the logs of all memtables, not only of the newest one, the value log, and the
// directory. Before DropPrefix and DropAll begin, they remove the stamp, the entry that ties the
// filter to the store, so after a crash meanwhile Open rebuilds the filter.
//
// # A step back
//
// A program without this package may have written to the store since a guard had it open. With
// Rebuild, Open puts the keys of such transactions into the filter, as after a kill. For this, a sync
// of the filter first writes a small entry, the note, which thereby gets a new version: a transaction
// with a later version may be another program's. With Exact, each transaction of the guard writes the
// note. If some version is greater than the note's, Open rebuilds the filter. Open also rebuilds it
// after a kill if the last write came from a Sequence, a MergeOperator, or a transaction that had no
// room for the note.
//
// # Reserved keys
//
// Keys that begin with guard.Options.Prefix, by default "\x00mmapfilter\x00", are the guard's. So is
// the key guard.OwnerName with two zero bytes after it, which all guards share. Programs do not see
// these keys and cannot write them. If NamespaceOffset is used, the prefix must have at least
// NamespaceOffset + 8 bytes, so that no ban of a namespace hides some of the entries.
//
// # Deletes
//
// With guard.Rebuild, the default, a deleted key stays in the filter until the filter is rebuilt. With
// guard.Exact each write of a key for which the filter says "maybe" costs a read. A key with a time to
// live is then inserted again each time it is put, and never deleted: guard.Rebuild suits such keys
// better.
//
// A rebuild reads all keys. First it verifies the checksums of the tables, since Badger's iterators
// end at a damaged block as if there were no more keys.
//
// # What is not covered
//
// Writes through the embedded badger.DB or badger.Txn are not covered: call Guard().Rebuild after
// them. Remove the filter after a program without the guard has loaded a backup, used a stream writer
// or managed mode, or dropped keys, and, with Rebuild and 2^40 versions, after any program without the
// guard. If the clock is set back, a key that had expired when the filter was rebuilt or, after
// a kill, opened may stay hidden. A key may be hidden if it comes back after Badger has reported its
// delete, as it can when RunValueLogGC has rewritten a deleted value and a compaction purges the
// delete. Damage to the lines of a filter that was not closed is not noticed, since such a filter has
// no checksums. Transactions must end before the DB is closed.
package badgerguard
