package layout

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A Shards looks keys up in the tables of a set, each in that of its shard (see [Shard]). The code for
// single keys hashes a key, and goes on with that of the table's Direct.
type Shards struct {
	Direct
	tables []atomic.Pointer[Direct]
	count  uint64

	// alike is the first table, without its file, which may go. A kernel for batches needs all to have
	// its kind and Params; what has others is left to Go.
	alike atomic.Pointer[Table]
}

// A shardsTable is a Table with a kernel for batches in sets.
type shardsTable interface {
	// FirstLooksInSet is FirstLooks for hashes of a set, whose tables have all but the number of
	// lines in common with this one.
	FirstLooksInSet(tables []atomic.Pointer[Direct], hashes []uint64, found []bool, open []uint8) (done int)
}

// NewShards returns the Shards for a set of count tables. Before the first lookup, Set must have given
// it each of them.
func NewShards(count int, h *Hasher) *Shards {
	s := &Shards{tables: make([]atomic.Pointer[Direct], count), count: uint64(count)}
	s.Direct = *NewDirect(nil, nil, h, func(hash uint64) bool {
		d, own := s.find(hash)
		return d.ContainsHash(own)
	})
	s.code = shardsCode()
	return s
}

// Set makes lookups look for the keys of a shard with d. Those under way may still use the one before,
// which the garbage collector keeps until they end.
func (s *Shards) Set(shard int, d *Direct) {
	if t, ok := d.table.(Table); ok && !s.alike.CompareAndSwap(nil, &t) {
		if alike := *s.alike.Load(); alike.Kind() != t.Kind() || alike.Params() != t.Params() {
			d = NewDirect(nil, nil, d.hash, d.ContainsHash)
		}
	}
	s.tables[shard].Store(d)
}

// find returns the Direct for a hash, and what stands for the hash there.
func (s *Shards) find(hash uint64) (d *Direct, own uint64) {
	number, own := ShardOf(hash, uint32(s.count))
	return s.tables[number].Load(), own
}

// ContainsHashes sets found[i] to ContainsHash of hashes[i]. found must not be shorter than hashes. The
// passes are those of ContainsHashes of a table.
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

// containsIn is containsPart with memory for it.
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
	clear(b.directs[:n]) // the memory stays, and their files may go
}

// A setScratch is the memory for a part of a batch in a set, with the Direct of each hash that is open.
type setScratch struct {
	scratch
	directs [LookupPart]*Direct
}

var setScratches = sync.Pool{New: func() any { return new(setScratch) }}

// prefetchBeyond asks for what containsBeyond reads and the first look has not. One file has all but the
// line in a cache; the many files of a set do not.
func (v *View) prefetchBeyond(p *places, c Class) {
	kernel.Prefetch(&v.Region[p.other.first])
	kernel.Prefetch(&v.Runtime[blockCounter(p.other.first/BlockWords)])
	kernel.Prefetch(&v.Runtime[RuntimeStashCounter])
	kernel.Prefetch(&v.Stash[c.firstGroup()])
}

// firstLooks is FirstLooks for a set. What is no table stays open.
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
