package sets

import (
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
)

var setHashes = sync.Pool{New: func() any { return new([layout.LookupPart]uint64) }}

// ContainsBatch is [mmapfilter.Filter.ContainsBatch] for the set. One manifest answers the whole batch.
func (s *Set) ContainsBatch(keys [][]byte, found []bool) {
	found = found[:len(keys)]
	st := s.state.Load()
	if st == nil {
		for i := range found {
			found[i] = true // "maybe"
		}
		return
	}
	if st.apart.Load() {
		st.containsApart(keys, found)
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

// containsApart is ContainsBatch while shards are open for writing, and in a set of OpenFS. Keys of
// such shards are looked up shard by shard: a shard that is open for writing may have pending words,
// which are not in its table, and a shard of OpenFS that is read line by line reads neighbours
// together. The keys of all other shards are looked up together.
func (st *setState) containsApart(keys [][]byte, found []bool) {
	p := parts.Get().(*part)
	defer parts.Put(p)
	for len(keys) > 0 {
		some := keys[:min(len(keys), mostKeys)]
		p.clear()
		for i, key := range some {
			h := st.hash.Hash(key)
			number := ShardOf(h, len(st.shards))
			if sh := st.shards[number]; sh.writer.Load() != nil || sh.set.fsys != nil {
				p.add(number, h, i)
			} else {
				p.addOther(h, i)
			}
		}
		if hashes, answers := p.others(); len(hashes) > 0 {
			st.lookups.ContainsHashes(hashes, answers)
			p.answerOthers(found)
		}
		for g := range p.sort(len(st.shards)) {
			number, hashes, answers := p.group(g)
			sh := st.shards[number]
			f := sh.get()
			if len(hashes) > few || sh.set.fsys != nil { // in a set of OpenFS, the end of a batch checks the file
				f.ContainsHashes(hashes, answers)
				continue
			}
			for i, h := range hashes {
				answers[i] = f.ContainsHash(h)
			}
		}
		p.answer(found)
		keys, found = keys[len(some):], found[len(some):]
	}
}

// few is the most keys of a shard that are faster to look up one by one than as a batch.
const few = 2
