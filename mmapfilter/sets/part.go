package sets

import "sync"

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
