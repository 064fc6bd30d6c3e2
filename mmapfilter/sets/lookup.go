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
	p, others := parts.Get().(*part), len(st.shards)
	defer parts.Put(p)
	for len(keys) > 0 {
		some := keys[:min(len(keys), mostKeys)]
		p.clear(others + 1)
		for i, key := range some {
			h := st.hash.Hash(key)
			number := ShardOf(h, len(st.shards))
			if st.shards[number].writer.Load() == nil {
				number = others
			}
			p.add(number, h, i)
		}
		for _, number := range p.used {
			hashes, answers := p.keys(number)
			switch {
			case number == others:
				st.lookups.ContainsHashes(hashes, answers)
			case len(hashes) > few:
				st.shards[number].get().ContainsHashes(hashes, answers)
			default:
				for i, h := range hashes {
					answers[i] = st.shards[number].get().ContainsHash(h)
				}
			}
			p.answer(number, found)
		}
		keys, found = keys[len(some):], found[len(some):]
	}
}

// few is how many keys of a shard are looked up sooner one by one than as a batch.
const few = 2

// mostKeys is how many keys of a batch are divided at once: many, so that a shard has several of them,
// but few enough that they stay in a cache.
const mostKeys = 1024

// A part of a batch of keys, divided by shards, so that a shard takes all of its keys in one call. Keys
// of one shard keep their order. The zero part is empty.
type part struct {
	groups []group // of each shard, and behind them those of further groups
	used   []int   // which of them have keys
	found  [mostKeys]bool
}

// A group is the keys of a shard.
type group struct {
	hashes []uint64
	of     []uint16 // which keys of the part they are
}

var parts = sync.Pool{New: func() any { return new(part) }}

// clear removes all keys, and makes room for as many groups.
func (p *part) clear(groups int) {
	for _, g := range p.used {
		p.groups[g] = group{p.groups[g].hashes[:0], p.groups[g].of[:0]}
	}
	p.used = p.used[:0]
	if n := groups - len(p.groups); n > 0 {
		p.groups = append(p.groups, make([]group, n)...)
	}
}

// add adds key i of the part, with its hash, to a group.
func (p *part) add(to int, hash uint64, i int) {
	g := &p.groups[to]
	if len(g.of) == 0 {
		p.used = append(p.used, to)
	}
	g.hashes, g.of = append(g.hashes, hash), append(g.of, uint16(i))
}

// keys returns the hashes of a group, and where to store the answers.
func (p *part) keys(of int) (hashes []uint64, found []bool) {
	hashes = p.groups[of].hashes
	return hashes, p.found[:len(hashes)]
}

// answer stores the answers for a group at the places of the keys in the part.
func (p *part) answer(of int, found []bool) {
	for k, i := range p.groups[of].of {
		found[i] = p.found[k]
	}
}
