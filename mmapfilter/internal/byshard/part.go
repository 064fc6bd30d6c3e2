package byshard

// Most is how many keys of a batch are sorted at once: many, so that a shard has several of them,
// but few enough that a Part, of 31 bytes a key, fits in a cache. A uint16 counts them.
const Most = 1024

// A Part is a part of a batch. The zero Part is empty.
type Part struct {
	n, others int

	// The keys as they came. Those of the others are filled in from the end backwards.
	numbers [Most]uint32 // of the shards
	own     [Most]uint64
	of      [Most]uint16 // which keys of the batch they are
	found   [Most]bool

	// The keys in the order of their shards.
	sorted [Most]uint64
	at     [Most]uint16     // where each key is there
	starts []uint16         // of each shard
	first  [Most + 1]uint16 // of each group: the keys of one shard
	groups [Most]uint32     // its shard
}

// Clear removes all keys.
func (p *Part) Clear() { p.n, p.others = 0, 0 }

// Add adds key i of the batch, for which own stands in a shard.
func (p *Part) Add(shard int, own uint64, i int) {
	p.numbers[p.n], p.own[p.n], p.of[p.n] = uint32(shard), own, uint16(i)
	p.n++
}

// AddOther adds key i of the batch, with its hash, to the others.
func (p *Part) AddOther(hash uint64, i int) {
	p.others++
	p.own[Most-p.others], p.of[Most-p.others] = hash, uint16(i)
}

// Others returns the hashes of the others, and where to store which of them are found.
func (p *Part) Others() (hashes []uint64, found []bool) {
	return p.own[Most-p.others:], p.found[:p.others]
}

// AnswerOthers stores the answers for the others at their places in the batch. Call it before Sort: the
// groups use the same memory.
func (p *Part) AnswerOthers(found []bool) {
	for k, i := range p.of[Most-p.others:] {
		found[i] = p.found[k]
	}
}

// Sort puts the keys in the order of their shards (counting sort), and returns the number of
// groups: the shards that have any.
func (p *Part) Sort(shards int) (groups int) {
	if len(p.starts) < shards+1 {
		p.starts = make([]uint16, shards+1)
	}
	starts := p.starts[:shards+1]
	clear(starts)
	for _, number := range p.numbers[:p.n] {
		starts[number+1]++
	}
	for number := range shards {
		keys := starts[number+1]
		starts[number+1] += starts[number]
		if keys > 0 {
			p.first[groups], p.groups[groups] = starts[number], uint32(number)
			groups++
		}
	}
	p.first[groups] = uint16(p.n)
	for i, number := range p.numbers[:p.n] {
		p.sorted[starts[number]], p.at[i] = p.own[i], starts[number]
		starts[number]++
	}
	return groups
}

// Group returns the shard of a group, its keys, and where to store which of them are found.
func (p *Part) Group(g int) (shard int, own []uint64, found []bool) {
	from, to := p.first[g], p.first[g+1]
	return int(p.groups[g]), p.sorted[from:to], p.found[from:to]
}

// Answer stores the answers for the keys of the groups at their places in the batch.
func (p *Part) Answer(found []bool) {
	for k, at := range p.at[:p.n] {
		found[p.of[k]] = p.found[at]
	}
}
