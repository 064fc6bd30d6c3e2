package layout

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A Shards looks keys up in the tables of a set, each key in the table of its shard (see [Shard]).
// The code for single keys hashes a key, and goes on in the code of the Direct of this table.
type Shards struct {
	Direct
	tables []atomic.Pointer[Direct]
	count  uint64

	// alike is the table of the first Set. (Its file may be closed.) A kernel for batches looks only
	// in tables that have the kind and the Params of alike, and leaves lookups in other tables to Go.
	alike atomic.Pointer[Table]
}

// A shardsTable is a Table with a kernel for batches in sets.
type shardsTable interface {
	// FirstLooksInSet is FirstLooks for hashes of a set. The tables of the set may differ from
	// this table only in the number of lines.
	FirstLooksInSet(tables []atomic.Pointer[Direct], hashes []uint64, found []bool, open []uint8) (done int)
}

// NewShards returns the Shards for a set of count tables. Call Set for each table before the first
// lookup.
func NewShards(count int, h *Hasher) *Shards {
	s := &Shards{tables: make([]atomic.Pointer[Direct], count), count: uint64(count)}
	s.Direct = *NewDirect(nil, nil, h, func(hash uint64) bool {
		d, own := s.find(hash)
		return d.ContainsHash(own)
	})
	s.code = shardsCode()
	return s
}

// Set makes lookups use d for the keys of a shard. Lookups under way may still use the earlier
// Direct, which the garbage collector keeps until they end.
func (s *Shards) Set(shard int, d *Direct) {
	if t, ok := d.table.(Table); ok && !s.alike.CompareAndSwap(nil, &t) {
		if alike := *s.alike.Load(); alike.Kind() != t.Kind() || alike.Params() != t.Params() {
			d = NewDirect(nil, nil, d.hash, d.ContainsHash)
		}
	}
	s.tables[shard].Store(d)
}

// find returns the Direct of the shard of a hash, and the hash that stands for it in this shard.
func (s *Shards) find(hash uint64) (d *Direct, own uint64) {
	number, own := ShardOf(hash, uint32(s.count))
	return s.tables[number].Load(), own
}

// ContainsHashes sets found[i] to ContainsHash of hashes[i]. found must not be shorter than hashes.
// It has the same passes as ContainsHashes in one table.
func (s *Shards) ContainsHashes(hashes []uint64, found []bool) {
	found = found[:len(hashes)]
	for len(hashes) > 0 {
		n := min(len(hashes), LookupPart)
		s.containsPart(hashes[:n], found[:n])
		hashes, found = hashes[n:], found[n:]
	}
}

func (s *Shards) containsPart(hashes []uint64, found []bool) {
	b := setScratches.Get().(*setScratch)
	s.containsIn(b, hashes, found)
	setScratches.Put(b)
}

// containsIn is containsPart in the memory of b.
func (s *Shards) containsIn(b *setScratch, hashes []uint64, found []bool) {
	open := b.open[:(len(hashes)+kernel.Group-1)/kernel.Group]
	clear(open)
	s.firstLooks(hashes, found, open)
	n := 0
	kernel.EachBit(open, func(i int) {
		d, own := s.find(hashes[i])
		if d.table != nil {
			p := &b.places[n]
			p.set(d.table, own, linesAreBlocks(d.table))
			d.view.prefetchBeyond(p, d.table.Class(p.home.item))
		}
		b.directs[n] = d
		n++
	})
	n = 0
	kernel.EachBit(open, func(i int) {
		_, own := ShardOf(hashes[i], uint32(s.count))
		if d := b.directs[n]; d.table != nil && loadWord(d.view.Runtime, RuntimeEpoch)&1 == 0 {
			found[i] = containsBeyond(d.table, d.view, own, &b.places[n])
			runtime.KeepAlive(d)
		} else {
			found[i] = d.contains(own)
		}
		n++
	})
	clear(b.directs[:n]) // so that the pool keeps no file reachable
}

// A setScratch is the memory for one part of a batch in a set. It also has the Direct of each open hash.
type setScratch struct {
	scratch
	directs [LookupPart]*Direct
}

var setScratches = sync.Pool{New: func() any { return new(setScratch) }}

// prefetchBeyond prefetches what containsBeyond reads and the first look has not read. Lookups
// in a single file keep all of this in a cache, except the line; lookups in the many files of a
// set do not.
func (v *View) prefetchBeyond(p *places, c Class) {
	kernel.Prefetch(&v.Region[p.other.first])
	kernel.Prefetch(&v.Runtime[blockCounter(p.other.first/BlockWords)])
	kernel.Prefetch(&v.Runtime[RuntimeStashCounter])
	kernel.Prefetch(&v.Stash[c.firstGroup()])
}

// firstLooks is FirstLooks for a set. The hashes of a shard without a table stay open.
func (s *Shards) firstLooks(hashes []uint64, found []bool, open []uint8) {
	done, look := 0, FirstLook
	if alike := s.alike.Load(); alike != nil {
		if t, ok := (*alike).(shardsTable); ok {
			done = t.FirstLooksInSet(s.tables, hashes, found, open)
		}
		if _, ok := (*alike).(batchTable); ok {
			look = Looks.FirstLook
		}
	}
	inBursts(done, len(hashes), func(from, to int) {
		for _, h := range hashes[from:to] {
			if d, own := s.find(h); d.table != nil {
				first, n := d.table.Words(d.table.Split(own).Line)
				prefetchWords(d.view, first, n)
				runtime.KeepAlive(d)
			}
		}
	}, func(from, to int) {
		for i, h := range hashes[from:to] {
			d, own := s.find(h)
			isFound, isOpen := false, true
			if d.table != nil {
				isFound, isOpen = look(d.table, d.view, own)
				runtime.KeepAlive(d)
			}
			note(found, open, from+i, isFound, isOpen)
		}
	})
}
