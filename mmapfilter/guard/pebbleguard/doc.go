// Package pebbleguard puts a filter in front of a Pebble store, so that reads of absent keys never
// reach the store. A program changes its call of Open, and the types that it names, such as
// *pebble.DB. README.md shows a program before and after, and directory guard/example/blockstore has a
// larger one. Package guard says what the filter promises, and how it keeps these promises.
//
// A [DB] embeds a pebble.DB, a [Batch] a pebble.Batch, and a [Snapshot] a pebble.Snapshot. Methods
// that are not declared here come from the embedded type, and none of them writes keys. Writes through
// the embedded fields themselves, such as db.DB.Set or batch.Batch.Commit, bypass the guard, and keys
// may be hidden. So pass an embedded field to a function that takes a *pebble.DB or a pebble.Writer
// only if the function only reads.
//
// # What is followed
//
// If Options.Deletes is Exact, a key leaves the filter soon after its delete. After a delete of
// unknown keys, as the table calls it, the keys stay in the filter until too many absent keys pass and
// the filter is rebuilt. With Rebuild, the default, all deleted keys stay until then (G4).
//
//	operation                       what the guard does
//	Set, Merge                      the key is in the filter before the commit
//	Delete, DeleteSized             the key is deleted, after the delete is durable
//	SingleDelete                    a delete of an unknown key: what it uncovers may be undefined
//	DeleteRange, Excise             a delete of unknown keys; of reserved keys, refused with ErrReserved
//	Ingest, IngestWithStats         the keys of the files are read, and are durable in the filter (with
//	                                Exact, in the outbox) before the files are ingested; a tombstone
//	                                or range delete in a file is a delete of unknown keys
//	IngestAndExcise                 as Ingest and Excise: no rebuild misses a key that is both excised and
//	                                in a file; shared and external files are refused with ErrNotFollowed
//	IngestExternalFiles             refused with ErrNotFollowed
//	LogData, RangeKeySet,           nothing: Get does not find such keys
//	RangeKeyUnset, RangeKeyDelete
//	Batch                           the commit reads the operations from the batch, however they came
//	                                there: by the methods for single operations, deferred operations,
//	                                Apply, SetRepr or AddInternalKey. Kinds that Pebble's own batches
//	                                do not have are refused with ErrNotFollowed
//	indexed batches                 Get and Has ask the filter only while the batch is empty: the filter
//	                                does not know what is in it
//	NewSnapshot,                    Get and Has ask the filter; once keys leave the filter after the
//	NewEventuallyFileOnlySnapshot   snapshot, they ask the store
//	NewIter, of all of these        the filter is not asked; reserved keys are skipped
//	Checkpoint                      a copy without a filter: when it is opened, one is built
//	Flush                           waits until the filter is durable, before the store has the table
//	Compact                         nothing
//	Options.DisableWAL              a mark flushes the memtables, and so does an ingest
//	Options.WALDir, WALFailover,    the log is read there, too
//	WALRecoveryDirs
//	Options.ReadOnly                reads ask the filter, if there is one that has all keys; all writes
//	                                fail with pebble.ErrReadOnly
//	Options.Comparer                a comparer other than Pebble's default is refused with ErrNotFollowed:
//	                                it may take keys with different bytes for the same key
//	Options.FS                      does not apply to the filter, which is a file of the operating
//	                                system: with a file system in memory, set guard.Options.Path
//
// # Crashes
//
// With Rebuild, Pebble's write-ahead log takes the place of an outbox, and a commit adds nothing to a
// batch. Open reads the log before Pebble does, keeps its keys in memory, and puts the keys that the
// filter lacks into the filter. A flush, which removes keys from the log, waits until the filter is
// durable.
//
// Epochs tell whether the log has everything that the filter lacks. A sync of the filter ends an
// epoch, and so does an ingest. The number of an epoch is the position of its transactions. Before the
// first transaction of an epoch is committed, the guard puts an entry into the store, without a sync:
// the number of this epoch, and the number of the last epoch before it that has an entry. Ingested
// keys are not in the log: they get an epoch without an entry, which the next entry names as the one
// before it. Open looks for these entries in the part of the log that Pebble reads. If the entries
// lead from the position of the filter to the last entry in the store without a gap, the log has all
// keys that the filter lacks. With Exact, the entries of the guard are in the batch of the program, so
// after a crash the store has both or neither. A crash may lose a commit that was not synced; a key of
// this commit that the filter has already is a false positive. Open repeats the operations that the
// store has and the filter does not have durably. Open rebuilds the filter only in the cases that
// package guard lists, such as a lost filter.
//
// # A step back
//
// Whenever Pebble opens a store for writing, it writes an OPTIONS file with a new number. An entry of
// the guard has the number from its own opening. If the last OPTIONS file has another number, a
// program without this package has opened the store, so Open rebuilds the filter, even if nothing was
// written. Open also rebuilds the filter after a kill between Pebble's opening and the guard's.
//
// # Reserved keys
//
// The guard's entries have keys with the prefix guard.Options.Prefix. Writes to such keys, and deletes
// of ranges that contain them, fail with [ErrReserved], and their batch has no effect. So a program
// that deletes all its keys must begin its range after the prefix, or use two ranges. The key
// guard.OwnerName is reserved whatever the prefix, since all guards share it. With another prefix, a
// range may delete this key, and the guard sets it again. Longer keys that begin with guard.OwnerName
// then belong to the program. Iterators skip reserved keys by an IterOptions.SkipPoint. Iterators
// whose options are replaced by Iterator.SetOptions or Clone show reserved keys, and so does
// ScanInternal.
//
// With Exact, or when the filter has failed, a commit adds entries to the batch: read Count, Len and
// Repr before the commit. To replicate batches, take their Repr before the commit, since another
// guarded store refuses the entries of this store.
//
// # What is not covered
//
// Writes through the embedded fields are not covered: call Guard().Rebuild after them. A key that
// SingleDelete removes though it was set more than once may come back in a compaction, after a rebuild
// that did not see it, and is then hidden; Pebble calls that undefined. Of two stores with the same
// guard.Options.Path, the second one runs without a filter. Files must not change while they are
// ingested.
package pebbleguard
