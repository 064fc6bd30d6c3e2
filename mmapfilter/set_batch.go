package mmapfilter

import (
	"runtime"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// setBlock is how many keys of a batch are in progress at once: their lines fit in a cache of a core.
const setBlock = 1024

// A setScratch is the memory for a block of keys, which it puts in the order of their shards.
type setScratch struct {
	numbers     [setBlock]uint32
	own, sorted [setBlock]uint64
	place       [setBlock]uint16 // of each key in sorted
	found       [setBlock]bool
	blocks      [setBlock]uint64
	starts      []uint16             // of each shard in sorted
	groups      [setBlock]uint32     // the shard of each group
	files       [setBlock]*openFile  // likewise
	first       [setBlock + 1]uint16 // of each group in sorted
}

var setScratches = sync.Pool{New: func() any { return new(setScratch) }}

// ContainsBatch is [Filter.ContainsBatch] for the set. The keys are looked up shard by shard. One
// manifest answers the whole batch.
func (s *Set) ContainsBatch(keys [][]byte, found []bool) {
	found = found[:len(keys)]
	st := s.state.Load()
	if st == nil {
		sayMaybe(found)
		return
	}
	b := setScratches.Get().(*setScratch)
	defer setScratches.Put(b)
	for len(keys) > 0 {
		n := min(len(keys), setBlock)
		st.containsBlock(b, keys[:n], found[:n])
		keys, found = keys[n:], found[n:]
	}
	clear(b.files[:])
}

func (st *setState) containsBlock(b *setScratch, keys [][]byte, found []bool) {
	groups := st.sort(b, keys)
	for g := range groups {
		b.files[g] = st.shards[b.groups[g]].get().open.Load() // once: a Close must not divide a group
	}
	if len(keys) < fewInGroup*groups {
		b.prefetch(groups)
	}
	for g := range groups {
		from, to := b.first[g], b.first[g+1]
		b.contains(b.files[g], from, to)
	}
	for i := range keys {
		found[i] = b.found[b.place[i]]
	}
}

// sort hashes keys and puts what stands for them in the order of their shards (counting sort). It
// returns the number of groups: shards that have some of the keys.
func (st *setState) sort(b *setScratch, keys [][]byte) (groups int) {
	if len(b.starts) < len(st.shards)+1 {
		b.starts = make([]uint16, len(st.shards)+1)
	}
	starts := b.starts[:len(st.shards)+1]
	clear(starts)
	for i, key := range keys {
		number, own := layout.ShardOf(st.hash.Hash(key), uint32(len(st.direct)))
		b.numbers[i], b.own[i] = uint32(number), own
		starts[number+1]++
	}
	for number := range st.shards {
		n := starts[number+1]
		starts[number+1] += starts[number]
		if n > 0 {
			b.first[groups] = starts[number]
			b.groups[groups] = uint32(number)
			groups++
		}
	}
	b.first[groups] = uint16(len(keys))
	for i := range keys {
		number := b.numbers[i]
		b.place[i] = starts[number]
		b.sorted[starts[number]] = b.own[i]
		starts[number]++
	}
	return groups
}

// fewInGroup: the lookups of a group overlap, but those of different groups do not. Where groups are
// small, all lines are prefetched before the first lookup.
const fewInGroup = 64

func (b *setScratch) prefetch(groups int) {
	for g := range groups {
		o := b.files[g]
		if o == nil || o.live != nil || o.unknown() {
			continue
		}
		hashes := b.sorted[b.first[g]:b.first[g+1]]
		layout.HomeBlocks(o.table, hashes, b.blocks[:])
		for i := range hashes {
			kernel.Prefetch(&o.view.Region[b.blocks[i]*layout.BlockWords])
		}
	}
}

// contains looks a group up in its file.
func (b *setScratch) contains(o *openFile, from, to uint16) {
	hashes, found := b.sorted[from:to], b.found[from:to]
	if o == nil || o.unknown() {
		sayMaybe(found)
		return
	}
	if !o.checked {
		o.containsHashes(hashes, found)
	} else if o.guard(func() { o.containsHashes(hashes, found) }) {
		for i, h := range hashes {
			found[i] = o.contains(h)
		}
	}
	runtime.KeepAlive(o)
}
