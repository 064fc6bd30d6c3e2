package mmapfilter

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// InsertBatch inserts keys in order and stops at the first error. It returns the number of keys
// inserted. It gives the same guarantees as Insert for each key, and is faster.
func (f *Filter) InsertBatch(keys [][]byte) (n int, err error) {
	b := batch{filter: f, op: layout.Insert, keys: keys, n: len(keys)}
	return b.insert()
}

// InsertUniqueBatch calls [Filter.InsertUnique] for each of the keys in order and stops at the first
// error. It returns how many keys succeeded; added[i] says whether keys[i] was added. added must be at
// least as long as keys. Each key is one atomic step: if several goroutines insert the same key,
// exactly one of them adds it. A batch is faster than single calls.
func (f *Filter) InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error) {
	b := batch{filter: f, op: layout.AtLeastOne, keys: keys, n: len(keys), added: added[:len(keys)]}
	return b.insert()
}

// InsertUniqueHashBatch is InsertUniqueBatch for keys whose [Filter.Hash] is known.
func (f *Filter) InsertUniqueHashBatch(hashes []uint64, added []bool) (n int, err error) {
	b := batch{filter: f, op: layout.AtLeastOne, hashes: hashes, n: len(hashes), added: added[:len(hashes)]}
	return b.insert()
}

// A batch has keys, or hashes of keys, to insert in order.
type batch struct {
	filter *Filter
	op     layout.Op
	keys   [][]byte // nil if the hashes are known
	hashes []uint64
	n      int    // number of keys or hashes
	done   int    // inserted so far
	added  []bool // what InsertUnique returns for each key; nil for Insert
}

// insert inserts the keys. If a rebuild replaces the file or makes room, insert goes on where it
// stopped.
func (b *batch) insert() (n int, err error) {
	for {
		o, err := b.filter.changeable()
		if err != nil {
			return b.done, err
		}
		if err = b.insertInto(o); err == nil {
			return b.done, nil
		}
		if err = b.filter.awaitTry(o, err); err != nil {
			return b.done, err
		}
	}
}

func (b *batch) insertInto(o *openFile) error {
	var own [writer.Batch]uint64
	for b.done < b.n {
		part := b.own(&own)
		if len(part) == 0 {
			return ErrOtherShard
		}
		added := b.added[min(b.done, len(b.added)):]
		err := o.work.Catch(func() error { return o.work.Writer.DoAll(b.op, part, false, &b.done, added) })
		if err != nil {
			return err
		}
		b.filter.inserted(o)
	}
	return nil
}

// own returns the hashes of the next keys, at most writer.Batch of them, in the form that this file uses
// (see layout.Shard). It stops before a key that belongs to another shard.
func (b *batch) own(to *[writer.Batch]uint64) []uint64 {
	n := min(writer.Batch, b.n-b.done)
	for i := range n {
		var hash uint64
		if b.keys != nil {
			hash = b.filter.hash.Hash(b.keys[b.done+i])
		} else {
			hash = b.hashes[b.done+i]
		}
		own, ok := b.filter.shard.Own(hash)
		if !ok {
			return to[:i]
		}
		to[i] = own
	}
	return to[:n]
}
