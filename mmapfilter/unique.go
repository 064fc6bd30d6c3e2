package mmapfilter

import "github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"

// InsertUniqueBatch does [Filter.InsertUnique] for keys in order and stops at the first error. It
// returns for how many keys it has done so; added[i] says whether it has added keys[i]. added must be
// at least as long as keys. Each key is one step: of several goroutines that have the same key, exactly
// one adds it. It is faster than single calls.
func (f *Filter) InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error) {
	added = added[:len(keys)]
	err = f.insertInto(func(o *openFile) error {
		var own [writer.Batch]uint64
		for n < len(keys) {
			if err := f.insertUniquePart(o, f.hashKeys(keys[n:], &own), &n, added[n:]); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// InsertUniqueHashBatch is InsertUniqueBatch for keys whose [Filter.Hash] is known.
func (f *Filter) InsertUniqueHashBatch(hashes []uint64, added []bool) (n int, err error) {
	added = added[:len(hashes)]
	err = f.insertInto(func(o *openFile) error {
		var own [writer.Batch]uint64
		for n < len(hashes) {
			if err := f.insertUniquePart(o, f.ownHashes(hashes[n:], &own), &n, added[n:]); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// ownHashes returns what stands for the first writer.Batch hashes in this file, or for all if there are
// fewer, up to one of another shard.
func (f *Filter) ownHashes(hashes []uint64, to *[writer.Batch]uint64) []uint64 {
	hashes = hashes[:min(writer.Batch, len(hashes))]
	for i, h := range hashes {
		own, ok := f.shard.Own(h)
		if !ok {
			return to[:i]
		}
		to[i] = own
	}
	return to[:len(hashes)]
}

// insertUniquePart does InsertUnique for at most writer.Batch hashes that stand for keys in this file.
func (f *Filter) insertUniquePart(o *openFile, part []uint64, n *int, added []bool) error {
	if len(part) == 0 {
		return ErrOtherShard
	}
	if err := o.work.Catch(func() error { return o.work.Writer.InsertUniqueAll(part, n, added) }); err != nil {
		return err
	}
	f.inserted(o)
	return nil
}
