package mmapfilter

import "github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"

// InsertUniqueBatch does [Filter.InsertUnique] for keys in order and stops at the first error. It
// returns for how many keys it has done so; added[i] says whether it has added keys[i]. added must be
// at least as long as keys. Each key is one step: of several goroutines that have the same key, exactly
// one adds it. It is faster than single calls.
func (f *Filter) InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error) {
	added = added[:len(keys)]
	err = f.insertInto(func(o *openFile) error {
		var own [engine.Batch]uint64
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
		var own [engine.Batch]uint64
		for n < len(hashes) {
			part := own[:0]
			for _, h := range hashes[n:min(n+engine.Batch, len(hashes))] {
				h, ok := f.shard.Own(h)
				if !ok {
					break
				}
				part = append(part, h)
			}
			if err := f.insertUniquePart(o, part, &n, added[n:]); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// InsertUniqueHashes is InsertUniqueHashBatch, but returns only how many it has added.
func (f *Filter) InsertUniqueHashes(hashes []uint64) (n, added int, err error) {
	var are [engine.Batch]bool
	for n < len(hashes) && err == nil {
		var done int
		done, err = f.InsertUniqueHashBatch(hashes[n:min(n+engine.Batch, len(hashes))], are[:])
		for _, new := range are[:done] {
			if new {
				added++
			}
		}
		n += done
	}
	return n, added, err
}

// insertUniquePart does InsertUnique for at most engine.Batch hashes that stand for keys in this file.
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

// insertUniqueOwnBatch does InsertUnique for hashes that stand for keys in this file.
func (f *Filter) insertUniqueOwnBatch(own []uint64, added []bool) (n int, err error) {
	err = f.insertInto(func(o *openFile) error {
		for n < len(own) {
			if err := f.insertUniquePart(o, own[n:min(n+engine.Batch, len(own))], &n, added[n:]); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}
