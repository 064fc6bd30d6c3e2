package mmapfilter

import (
	"context"
	"runtime"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// Insert inserts key. Once it returns nil, this process finds the key at once, and other
// processes find it after the next commit. The key survives the death of the process (C2) and,
// after the next commit or [Filter.Sync], a power loss (C1). Equal keys are counted (C7).
//
// The errors are [ErrFull], after which nothing has changed, [ErrReadOnly], [ErrClosed]
// and [ErrFailed].
func (f *Filter) Insert(key []byte) error { return f.InsertHash(f.hash.Hash(key)) }

// InsertHash is Insert for a key whose [Filter.Hash] is known. A hash of your own must be as random:
// sequential numbers fall into few lines, which soon fill up. If the filter is a shard and cannot have
// the key, the error is [ErrOtherShard].
func (f *Filter) InsertHash(hash uint64) error {
	_, err := f.do(layout.Insert, hash)
	return err
}

// do does an operation on a hash. If a rebuild replaces the file, do uses the new file.
// done is what InsertUnique or Delete returns.
func (f *Filter) do(op layout.Op, hash uint64) (done bool, err error) {
	own, ok := f.shard.Own(hash)
	for {
		o, err := f.changeable()
		switch {
		case err != nil:
			return false, err
		case !ok && op == layout.Delete: // a key of another shard is certainly not here
			return false, nil
		case !ok:
			return false, ErrOtherShard
		}
		w := o.work.Writer
		w.PrefetchHome(own)
		err = o.work.Catch(func() (err error) {
			switch op {
			case layout.Insert:
				err = w.Insert(own)
			case layout.AtLeastOne:
				done, err = w.InsertUnique(own)
			case layout.Delete:
				done, err = w.Delete(own)
			}
			return err
		})
		switch {
		case err != nil:
			if err = f.awaitTry(o, err); err == nil {
				continue
			}
		case op == layout.Delete:
			f.deleted(o)
		default:
			f.inserted(o)
		}
		return done && err == nil, err
	}
}

// awaitTry waits until an operation that has failed in o can be tried again. If the operation cannot be
// tried again, awaitTry returns its error.
func (f *Filter) awaitTry(o *openFile, err error) error {
	if err == writer.ErrMoved {
		return nil
	}
	if hash, full := noRoomFor(err); full {
		return f.waitForRoom(o, hash)
	}
	return err
}

// InsertUnique inserts key unless a lookup of key answers "maybe"; added reports whether it did. Lookup
// and insert are one step: if several goroutines insert the same key, exactly one adds it.
//
// If InsertUnique adds no item, it leaves the key out: an item answers for the key already. After a
// false positive this is the item of another key, and lookups find the key only as long as this item
// is there. In a filter that keeps its hashes, an InsertUnique, whether or not it adds an item, means
// "at least one" (K7): every rebuild gives the key an item, and one Delete removes the key. Once a key
// is left out, nobody can tell for which keys an item answers, so [Filter.Delete] and
// [Filter.ExpireBefore] remove no item until the next rebuild. A repeated InsertUnique does not make a
// key younger. In a filter without kept hashes, deleting the key that has the item removes it for both
// keys. The errors are those of [Filter.Insert].
func (f *Filter) InsertUnique(key []byte) (added bool, err error) {
	return f.do(layout.AtLeastOne, f.hash.Hash(key))
}

// Delete deletes one item of a key that was inserted. It reports false and changes
// nothing if the key is certainly not in the filter.
//
// Delete only keys that were inserted. If the filter answers "maybe" for a key that was never
// inserted, Delete takes the fingerprint of another key, which may then be answered "certainly not"
// (C6). A filter of fingerprints cannot detect this. If the filter keeps its hashes, the next rebuild
// gives the other key back, and [Verify] counts such deletes. If you delete that other key before the
// rebuild, Delete finds no item and reports false, and the rebuild brings that key back all the same.
//
// Once [Filter.InsertUnique] has left a key out of a filter that keeps its hashes, Delete removes no
// item, since any item might answer for the key that was left out. Instead, the delete waits for the
// next rebuild, which removes the key. Until then lookups answer "maybe" for the key, and another
// Delete of it reports true. [Stats.Waiting] says how many deletes wait. With [Options.AutoGrow], the
// filter is rebuilt when many deletes wait (K5). If the hashes are lost meanwhile ([ErrNoHashes]),
// only a Rebuild from [RebuildOptions.Keys] can remove the deleted keys.
//
// The errors are those of [Filter.Insert] except ErrFull.
func (f *Filter) Delete(key []byte) (bool, error) { return f.DeleteHash(f.hash.Hash(key)) }

// DeleteHash is Delete for a key whose [Filter.Hash] is known.
func (f *Filter) DeleteHash(hash uint64) (deleted bool, err error) {
	return f.do(layout.Delete, hash)
}

// Sync commits: it makes every operation that has returned durable and visible to other
// processes (W3). If it fails with [ErrFailed], so does every later operation; close the filter
// and open it again. No operation covered by an earlier Sync that returned nil is lost.
func (f *Filter) Sync() error {
	return f.commit((*writer.Writer).Sync)
}

// SyncAt is Sync and also stores seq, a number of the caller's choice, such as a position in the stream
// of keys. [Filter.DurableSeq] returns seq, also after a crash.
func (f *Filter) SyncAt(seq uint64) error {
	return f.syncAt(func(uint64) uint64 { return seq })
}

func (f *Filter) syncAt(seq func(operations uint64) uint64) error {
	if _, err := f.changeable(); err != nil {
		return err
	}
	return f.commit(func(w *writer.Writer) error { return w.SyncAt(seq) })
}

func (f *Filter) commit(sync func(*writer.Writer) error) error {
	for {
		o, err := f.writable()
		if err != nil {
			return err
		}
		if err := o.work.Catch(func() error { return sync(o.work.Writer) }); err != writer.ErrMoved {
			return err
		}
	}
}

// DurableSeq returns the number of the last durable [Filter.SyncAt], or 0 if there is none or
// the filter is closed.
func (f *Filter) DurableSeq() uint64 {
	seq, _ := f.durable()
	return seq
}

// DurableOps returns how many operations after the last durable SyncAt are durable. To resume after a
// crash, repeat the operations that followed the SyncAt with number DurableSeq, but skip the first
// DurableOps of them: then none is lost and none is done twice. Each call of Insert, InsertUnique,
// Delete or a variant, and each key of InsertBatch, counts as one operation if it returned nil or
// [ErrFull], whether or not it changed anything. (The last operations before a crash may not be
// counted if they changed nothing; repeating them does no harm.) Call DurableSeq before DurableOps: if
// a commit comes in between, DurableOps may be too low, but never too high.
func (f *Filter) DurableOps() uint64 {
	_, ops := f.durable()
	return ops
}

func (f *Filter) durable() (seq, ops uint64) {
	for {
		o := f.open.Load()
		if o == nil {
			return 0, 0
		}
		if o.work == nil {
			sb := o.newest()
			return sb.UserSeq(), sb.Kept().Counted(sb.Operation())
		}
		seq, ops = o.work.Writer.Durable()
		if f.open.Load() == o { // otherwise a rebuild has replaced it, or has failed to
			return seq, ops
		}
	}
}

// Checkpoint is Sync and also makes the filter file durable, so that the log starts anew and a
// recovery has little to do. The filter checkpoints by itself, in the background, when one of the two
// halves of the log is nearly full. Checkpoint writes everything that has changed in the file;
// operations and syncs go on meanwhile, in the other half of the log. It checks ctx only before it
// begins.
func (f *Filter) Checkpoint(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.commit((*writer.Writer).Checkpoint)
}

// Count returns an upper bound on how often key is in the filter: the number of items with the same
// lines, buckets and fingerprint. It is exact unless another key shares all three (C7), or deletes wait
// for a rebuild (see [Filter.Delete]). For a key that InsertUnique left out, Count is at least 1; for a
// key whose item was taken by a delete of an absent key (C6), it may be 0. If Count cannot tell, it
// returns math.MaxUint64: after Close, after a fault, if a write has failed, or while a writer in
// another process keeps moving these items.
func (f *Filter) Count(key []byte) uint64 {
	for hash := f.hash.Hash(key); ; {
		if n, done := f.countIn(f.open.Load(), hash); done {
			return n
		}
	}
}

// countIn is Count in the file of o. It reports false if a rebuild has replaced the file meanwhile,
// since then nobody keeps the file from changing.
func (f *Filter) countIn(o *openFile, hash uint64) (n uint64, done bool) {
	n = unknownCount
	if o == nil {
		return n, true
	}
	own, ok := f.shard.Own(hash)
	switch {
	case o.unknown():
	case !ok:
		n = 0
	case o.work == nil:
		o.catch(func() { n = o.count(own) })
		runtime.KeepAlive(o)
	default:
		o.work.Catch(func() error { n = o.work.Writer.Count(own); return nil })
	}
	return n, f.open.Load() == o
}

const unknownCount = writer.Unknown

func (o *openFile) count(hash uint64) uint64 {
	var n uint64
	var ok bool
	if o.lines != nil {
		n, ok = o.lines.count(hash)
	} else {
		n, ok = layout.Count(o.table, o.view.At, hash)
	}
	if !ok {
		return unknownCount
	}
	return n
}

// Seal makes a checkpoint, as [Filter.Checkpoint] does, adds checksums of every byte, so that
// [Verify] can check the file like one from [Build], and removes the log. It reads the whole file;
// operations wait meanwhile. A sealed file can be written to like any other; after the first
// operation it is no longer sealed.
//
// If ctx is cancelled, the filter is as after Checkpoint, or unchanged if Seal had not begun.
func (f *Filter) Seal(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.commit(func(w *writer.Writer) error { return w.Seal(ctx) })
}
