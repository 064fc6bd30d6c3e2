package sets

// mostKeys is how many keys of a batch are sorted at once: enough for several keys of each shard,
// and few enough for a part, of 31 bytes a key, to fit in a cache. A uint16 counts them.
const mostKeys = 1024

// A part has some keys of a batch. Most are sorted by the shards that they belong to, so that a shard
// takes all of its keys in one call. A counting sort puts them in the order of their shards; keys of
// one shard keep their order. The others are keys of shards that need no call of their own: they are
// looked up together, in any order. The zero part is empty.
type part struct {
	n, rest int // keys to sort, and others

	// The keys as they came. The others are filled in from the end backwards.
	numbers [mostKeys]uint32 // of the shards
	hashes  [mostKeys]uint64
	of      [mostKeys]uint16 // their places in the batch
	found   [mostKeys]bool

	// The keys in the order of their shards.
	sorted [mostKeys]uint64
	at     [mostKeys]uint16     // the place in the batch of each key of sorted
	starts []uint16             // where the keys of each shard start in sorted
	first  [mostKeys + 1]uint16 // where each group starts in sorted; a group is the keys of one shard
	groups [mostKeys]uint32     // the shard of each group
}

// clear removes all keys.
func (p *part) clear() { p.n, p.rest = 0, 0 }

// add adds key i of the batch, with its hash.
func (p *part) add(shard int, hash uint64, i int) {
	p.numbers[p.n], p.hashes[p.n], p.of[p.n] = uint32(shard), hash, uint16(i)
	p.n++
}

// addOther adds key i of the batch, with its hash, to the others.
func (p *part) addOther(hash uint64, i int) {
	p.rest++
	p.hashes[mostKeys-p.rest], p.of[mostKeys-p.rest] = hash, uint16(i)
}

// others returns the hashes of the others, and where to store whether each is found.
func (p *part) others() (hashes []uint64, found []bool) {
	return p.hashes[mostKeys-p.rest:], p.found[:p.rest]
}

// answerOthers stores the answers for the others at their places in the batch. Call it before sort: the
// groups use the same memory.
func (p *part) answerOthers(found []bool) {
	for k, i := range p.of[mostKeys-p.rest:] {
		found[i] = p.found[k]
	}
}

// sort puts the keys in the order of their shards (counting sort), and returns the number of groups,
// that is, of shards that have keys.
func (p *part) sort(shards int) (groups int) {
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
		p.sorted[starts[number]], p.at[i] = p.hashes[i], starts[number]
		starts[number]++
	}
	return groups
}

// group returns the shard of a group, its keys, and where to store whether each is found.
func (p *part) group(g int) (shard int, hashes []uint64, found []bool) {
	from, to := p.first[g], p.first[g+1]
	return int(p.groups[g]), p.sorted[from:to], p.found[from:to]
}

// answer stores the answers for the keys of the groups at their places in the batch.
func (p *part) answer(found []bool) {
	for k, at := range p.at[:p.n] {
		found[p.of[k]] = p.found[at]
	}
}
