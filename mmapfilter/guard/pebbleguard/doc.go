// Package pebbleguard puts a filter in front of a Pebble store, so that reads of absent keys never
// reach it. A program changes its import and its Open: README.md shows a program before and after,
// and directory guard/example/blockstore has a larger one. Package guard says what the filter
// promises, and how it keeps these promises.
//
// A [DB] is a pebble.DB, a [Batch] a pebble.Batch, a [Snapshot] a pebble.Snapshot: methods that are
// not declared here come from the embedded type, and none of them writes keys. Writes through the
// embedded fields themselves, such as db.DB.Set or batch.Batch.Commit, go past the guard: keys may
// be hidden then. So a function that takes a *pebble.DB or a pebble.Writer must not be given them,
// unless it only reads.
//
// # What is followed
//
// With deletes: Exact, a key leaves the filter soon after it is deleted. After a delete of unknown
// keys, as the table calls it, the keys stay in the filter until the filter is rebuilt, when too
// many absent keys pass. With deletes: Rebuild, the default, all deletes leave the keys in the
// filter until then (G4).
//
//	operation                       what the guard does
//	Set, Merge                      the key is in the filter before the commit
//	Delete, DeleteSized             the key is deleted, after the delete is durable
//	SingleDelete                    a delete of an unknown key: what it uncovers may be undefined
//	DeleteRange, Excise             a delete of unknown keys; reserved ones are refused with ErrReserved
//	Ingest, IngestWithStats         the keys of the files are read, and are durable in the filter, or with
//	                                deletes: Exact in the outbox, before the files are ingested; a
//	                                tombstone or range delete in a file is a delete of unknown keys
//	IngestAndExcise                 as Ingest and Excise: no rebuild misses a key that is both excised and
//	                                in a file; shared and external files are refused with ErrNotFollowed
//	IngestExternalFiles             refused with ErrNotFollowed
//	LogData, RangeKeySet,           nothing: these are no keys that Get finds
//	RangeKeyUnset, RangeKeyDelete
//	Batch                           its operations are read from it at its commit, however they came
//	                                there: by the methods for single operations, deferred ones,
//	                                Apply, SetRepr or AddInternalKey. Kinds that Pebble's own batches
//	                                do not have are refused with ErrNotFollowed
//	indexed batches                 Get and Has ask the filter only while the batch is empty: the filter
//	                                does not know what is in it
//	NewSnapshot,                    Get and Has ask the filter until keys have left it since; from then on
//	NewEventuallyFileOnlySnapshot   they ask the store
//	NewIter, of all of these        the filter is not asked; reserved keys are skipped
//	Checkpoint                      a copy without a filter: when it is opened, one is built
//	Flush                           it waits for the filter to become durable, before the store has the table
//	Compact                         nothing
//	Options.DisableWAL              a mark, and an ingest, flushes the memtables
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
// With deletes: Rebuild, Pebble's write-ahead log takes the place of an outbox: a commit adds
// nothing to a batch. Open reads the log before Pebble does, keeps its keys in memory, and puts
// those that the filter lacks into the filter. A flush, which takes keys out of the log, waits until
// the filter is durable.
//
// Epochs tell whether the log has everything that the filter lacks. A sync of the filter ends an epoch,
// whose number is the position of its transactions. Before the first transaction of an epoch is
// committed, the guard puts an entry into the store, without a sync: the number of this epoch, and of
// the one before it that has an entry. Open looks for these entries in the part of the log that Pebble
// reads. If they lead from the position of the filter to the last one in the store, without a gap, the
// log has all keys that the filter lacks. With deletes: Exact, the entries of the guard are in the
// batch of the program: after a crash the store has both or neither. Without sync, a crash loses a
// commit; a key of this commit that the filter has already is a false positive. Open does the
// operations again that the store has and the filter does not have durably. It rebuilds the filter only
// in the cases that package guard lists, such as a lost filter.
//
// # A step back
//
// Whenever Pebble opens a store to write to it, it writes an OPTIONS file with a new number. An entry
// has the number of the guard's own opening. If the last OPTIONS file has another number, a program
// without this package has opened the store, so Open rebuilds the filter, even if nothing was written.
// Open does the same after a kill that came between Pebble's opening and the guard's.
//
// # Reserved keys
//
// The guard's entries have keys with the prefix guard.Options.Prefix. Writes to such keys, and
// deletes of ranges with them, fail with [ErrReserved], and their batch has no effect. A program
// that deletes all its keys with one range must therefore begin after the prefix, or use two ranges.
// The key guard.OwnerName is reserved whatever the prefix, since all guards share it; with another
// prefix, a range may delete it, and the guard sets it again. Keys that only begin with it are the
// program's. Iterators skip reserved keys by an IterOptions.SkipPoint. Iterators whose options
// are replaced by Iterator.SetOptions or Clone show reserved keys, and so does ScanInternal.
//
// With deletes: Exact, or when the filter has failed, a commit adds entries to the batch: read
// Count, Len and Repr before it. To replicate batches, take their Repr before the commit, since
// another guarded store refuses the entries of this one.
//
// # What is not covered
//
// Writes through the embedded fields: call Guard().Rebuild after them. A key that SingleDelete
// removes though it was set more than once: it may come back in a compaction, after a rebuild that
// did not see it; Pebble calls that undefined. Two stores with one guard.Options.Path: the second
// one runs without a filter. Files that change while they are ingested.
package pebbleguard
