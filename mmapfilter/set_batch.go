package mmapfilter

import (
	"runtime"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
)

var setHashes = sync.Pool{New: func() any { return new([layout.LookupPart]uint64) }}

// ContainsBatch is [Filter.ContainsBatch] for the set. One manifest answers the whole batch.
func (s *Set) ContainsBatch(keys [][]byte, found []bool) {
	found = found[:len(keys)]
	st := s.state.Load()
	if st == nil {
		sayMaybe(found)
		return
	}
	if st.written.Load() {
		st.containsWritten(keys, found)
		return
	}
	scratch := setHashes.Get().(*[layout.LookupPart]uint64)
	defer setHashes.Put(scratch)
	for len(keys) > 0 {
		hashes := scratch[:min(len(keys), len(scratch))]
		for i := range hashes {
			hashes[i] = st.hash.Hash(keys[i])
		}
		st.lookups.ContainsHashes(hashes, found[:len(hashes)])
		keys, found = keys[len(hashes):], found[len(hashes):]
	}
}

// containsWritten is ContainsBatch while shards are open for writing. Their keys are looked up shard by
// shard, since what is pending in a shard is not in its table. Those of all other shards are looked up
// together.
func (st *setState) containsWritten(keys [][]byte, found []bool) {
	b := setScratches.Get().(*setScratch)
	defer setScratches.Put(b)
	count := uint32(len(st.shards))
	for len(keys) > 0 {
		part := keys[:min(len(keys), setPart)]
		written, others := 0, 0
		for i, key := range part {
			h := st.hash.Hash(key)
			number, own := layout.ShardOf(h, count)
			if st.shards[number].writes.Load() {
				b.numbers[written], b.own[written], b.of[written] = uint32(number), own, uint16(i)
				written++
			} else {
				others++ // from the end
				b.own[len(part)-others], b.of[len(part)-others] = h, uint16(i)
			}
		}
		if others > 0 {
			hashes, of := b.own[written:len(part)], b.of[written:len(part)]
			st.lookups.ContainsHashes(hashes, b.found[:others])
			for k, i := range of {
				found[i] = b.found[k]
			}
		}
		for g := range b.sort(len(st.shards), written) {
			own, answers := b.sorted[b.first[g]:b.first[g+1]], b.found[b.first[g]:b.first[g+1]]
			f := st.shards[b.groups[g]].get()
			if len(own) > few {
				f.containsOwnBatch(own, answers)
				continue
			}
			for i, h := range own {
				answers[i] = f.own.Load().ContainsHash(h)
			}
		}
		for k, at := range b.at[:written] {
			found[b.of[k]] = b.found[at]
		}
		keys, found = keys[len(part):], found[len(part):]
	}
}

// few is how many keys of a shard are looked up sooner one by one than as a batch.
const few = 2

// containsOwnBatch is ContainsHashes for hashes that stand for keys in this file.
func (f *Filter) containsOwnBatch(own []uint64, found []bool) {
	o := f.open.Load()
	if o == nil || o.unknown() {
		sayMaybe(found)
		return
	}
	if !o.checked {
		o.containsHashes(own, found)
	} else if o.catch(func() { o.containsHashes(own, found) }) {
		for i, h := range own { // as in ContainsBatch
			found[i] = o.contains(h)
		}
	}
	runtime.KeepAlive(o)
}
