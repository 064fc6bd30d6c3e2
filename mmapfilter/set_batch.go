package mmapfilter

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/byshard"
)

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
	scratch := hashParts.Get().(*hashPart)
	defer hashParts.Put(scratch)
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
	p := setParts.Get().(*byshard.Part)
	defer setParts.Put(p)
	for len(keys) > 0 {
		part := keys[:min(len(keys), byshard.Most)]
		p.Clear()
		for i, key := range part {
			h := st.hash.Hash(key)
			number, own := layout.ShardOf(h, uint32(len(st.shards)))
			if st.shards[number].writes.Load() {
				p.Add(int(number), own, i)
			} else {
				p.AddOther(h, i)
			}
		}
		if hashes, answers := p.Others(); len(hashes) > 0 {
			st.lookups.ContainsHashes(hashes, answers)
			p.AnswerOthers(found)
		}
		for g := range p.Sort(len(st.shards)) {
			number, own, answers := p.Group(g)
			f := st.shards[number].get()
			if len(own) > few {
				f.open.Load().containsAll(own, answers)
				continue
			}
			for i, h := range own {
				answers[i] = f.own.Load().ContainsHash(h)
			}
		}
		p.Answer(found)
		keys, found = keys[len(part):], found[len(part):]
	}
}

// few is how many keys of a shard are looked up sooner one by one than as a batch.
const few = 2
