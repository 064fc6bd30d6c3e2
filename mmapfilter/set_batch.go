package mmapfilter

import (
	"runtime"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// setBlock is how many keys of a batch are in progress at once. Their lines fit in the first cache of a
// core twice.
const setBlock = 256

// fewInGroup: the kernels look up the keys of one file at a time. Where a block has fewer keys of each
// shard than this, single lookups of keys whose lines have been prefetched are faster.
const fewInGroup = 32

// A setScratch is the memory for a block of keys.
type setScratch struct {
	numbers [setBlock]uint32 // of the shards
	own     [setBlock]uint64

	// The block in the order of its shards.
	sorted [setBlock]uint64
	place  [setBlock]uint16 // of each key
	found  [setBlock]bool
	starts []uint16             // of each shard
	first  [setBlock + 1]uint16 // of each group: the keys of one shard
	groups [setBlock]uint32     // its shard
}

var setScratches = sync.Pool{New: func() any { return new(setScratch) }}

// ContainsBatch is [Filter.ContainsBatch] for the set. One manifest answers the whole batch.
func (s *Set) ContainsBatch(keys [][]byte, found []bool) {
	found = found[:len(keys)]
	st := s.state.Load()
	if st == nil {
		sayMaybe(found)
		return
	}
	b := setScratches.Get().(*setScratch)
	defer setScratches.Put(b)
	few := setBlock < fewInGroup*len(st.shards)
	for len(keys) > 0 {
		n := min(len(keys), setBlock)
		b.hash(st, keys[:n])
		if few {
			b.contains(st, found[:n])
		} else {
			b.containsSorted(st, found[:n])
		}
		keys, found = keys[n:], found[n:]
	}
}

// hash finds out which shard each key belongs to, and what stands for it there.
func (b *setScratch) hash(st *setState, keys [][]byte) {
	count := uint32(len(st.shards))
	for i, key := range keys {
		number, own := layout.ShardOf(st.hash.Hash(key), count)
		b.numbers[i], b.own[i] = uint32(number), own
	}
}

// A setPlace is where the lines of a shard are, to prefetch them.
type setPlace struct {
	region []uint64
	lines  uint64
	bits   uint64 // of a line
}

var noPlace setPlace

// placeOf returns the place of a file that lookups read directly. Others have none.
func placeOf(f *Filter) *setPlace {
	o := f.open.Load()
	if o == nil || o.live != nil || o.unknown() {
		return &noPlace
	}
	return &setPlace{o.view.Region, o.geometry.Lines, uint64(layout.LineBits(o.geometry.Kind, o.geometry.Params))}
}

// contains looks a block up key by key.
func (b *setScratch) contains(st *setState, found []bool) {
	for i := range found {
		if p := st.places[b.numbers[i]].Load(); p.lines > 0 {
			line, _ := layout.SplitHash(b.own[i], p.lines)
			kernel.Prefetch(&p.region[line*p.bits/64])
		}
	}
	for i := range found {
		found[i] = st.direct[b.numbers[i]].Load().ContainsHash(b.own[i])
	}
}

// containsSorted looks a block up shard by shard.
func (b *setScratch) containsSorted(st *setState, found []bool) {
	for g := range b.sort(len(st.shards), len(found)) {
		hashes, found := b.sorted[b.first[g]:b.first[g+1]], b.found[b.first[g]:b.first[g+1]]
		o := st.shards[b.groups[g]].get().open.Load() // once: a Close must not divide a group
		switch {
		case o == nil || o.unknown():
			sayMaybe(found)
		case !o.checked:
			o.containsHashes(hashes, found)
		case o.guard(func() { o.containsHashes(hashes, found) }):
			for i, h := range hashes { // as in Filter.ContainsBatch
				found[i] = o.contains(h)
			}
		}
		runtime.KeepAlive(o)
	}
	for i := range found {
		found[i] = b.found[b.place[i]]
	}
}

// sort puts the first n keys in the order of their shards (counting sort), and returns the number of
// groups.
func (b *setScratch) sort(shards, n int) (groups int) {
	if len(b.starts) < shards+1 {
		b.starts = make([]uint16, shards+1)
	}
	starts := b.starts[:shards+1]
	clear(starts)
	for _, number := range b.numbers[:n] {
		starts[number+1]++
	}
	for number := range shards {
		keys := starts[number+1]
		starts[number+1] += starts[number]
		if keys > 0 {
			b.first[groups], b.groups[groups] = starts[number], uint32(number)
			groups++
		}
	}
	b.first[groups] = uint16(n)
	for i, number := range b.numbers[:n] {
		b.place[i] = starts[number]
		b.sorted[starts[number]] = b.own[i]
		starts[number]++
	}
	return groups
}
