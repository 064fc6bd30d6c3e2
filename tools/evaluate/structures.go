package main

import (
	"fmt"
	"math"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/peers"
)

// A structure is compared with others: a table of this library, or a peer.
type structure struct {
	name  string
	about string
	shape *shape  // of this library; nil for a peer
	load  float64 // of its slots, when it counts as full
	paper string  // Table 3: items in millions, bits an item, rate, million inserts a second
}

// dleftBits is the bits an item of the paper's d-left filter (Table 3). It determines how many
// items ours takes, since that filter has no capacity of its own.
const dleftBits = 15.51

// structures are those of Table 3, in its order, and two that it does not have: our layout
// Compact, and the counting Bloom filter.
var structures = []structure{
	{
		name: "CF", about: "cuckoo filter: layout packed, f=12, b=4, in a mapped file",
		shape: &shape{mmapfilter.Packed, 12, 4, 0}, load: 127.78e6 / (1 << 27), paper: "127.78 / 12.60 / 0.19 % / 5.00",
	},
	{
		name: "ss-CF", about: "cuckoo filter with semi-sorted buckets: layout semisorted, f=13, b=4, in a mapped file",
		shape: &shape{mmapfilter.SemiSorted, 13, 4, 0}, load: 128.04e6 / (1 << 27), paper: "128.04 / 12.58 / 0.09 % / 3.13",
	},
	{
		name: "Compact", about: "cuckoo filter of one cache line: layout compact, for a rate of 0.2 %, in a mapped file; not in the paper",
		shape: &shape{mmapfilter.Compact, 0, 0, 0.002}, load: 0.95, paper: "-",
	},
	{name: "BF", about: "standard Bloom filter, 13 bits an item, in the heap", paper: "123.89 / 13.00 / 0.19 % / 3.91"},
	{name: "blk-BF", about: "blocked Bloom filter, 13 bits an item, in the heap", paper: "123.89 / 13.00 / 0.43 % / 7.64"},
	{name: "CBF", about: "counting Bloom filter, 13 counters of 4 bits an item, in the heap; not in the paper's table", paper: "-"},
	{name: "QF", about: "quotient filter, 9 bits a remainder, 90 % of its slots, in the heap", paper: "120.80 / 13.33 / 0.18 % / 1.95"},
	{name: "dl-CBF", about: "d-left counting Bloom filter, in the heap", paper: "103.82 / 15.51 / 0.76 % / 4.78"},
}

// peer makes the peer with a name, and returns how many keys it must take.
func peer(name string, bytes uint64) (f peers.Filter, keys uint64, err error) {
	for _, e := range peers.All(bytes) {
		if e.Name != name {
			continue
		}
		if keys = e.Keys; keys == 0 {
			keys = uint64(float64(bytes) * 8 / dleftBits)
		}
		f, err = e.New()
		return f, keys, err
	}
	return nil, 0, fmt.Errorf("there is no peer %q", name)
}

// A member is a structure with the keys numbered below n in it.
type member struct {
	structure
	filter peers.Filter
	mapped *mapped // the filter if it is ours, else nil
	full   uint64  // keys it must take
	n      uint64
}

// options returns the options of a table of ours of about the given bytes, its lines, and how
// many keys go into it.
func (s *structure) options(bytes uint64) (o *mmapfilter.Options, lines, keys uint64, err error) {
	o, lines, err = s.shape.options(s.shape.lines(bytes))
	if err != nil {
		return nil, 0, 0, fmt.Errorf("%s: %w", s.name, err)
	}
	return o, lines, uint64(math.Ceil(s.load * float64(lines*s.shape.slots()))), nil
}

// empty makes an empty structure. Ours are open for writing.
func (c *config) empty(s structure, bytes uint64) (*member, error) {
	m := &member{structure: s}
	var err error
	if s.shape == nil {
		m.filter, m.full, err = peer(s.name, bytes)
		return m, err
	}
	o, _, keys, err := s.options(bytes)
	if err != nil {
		return nil, err
	}
	m.full = keys
	if m.mapped, err = c.create(s.name, o); err != nil {
		return nil, err
	}
	m.filter = m.mapped
	return m, nil
}

// insert adds the next keys, numbered from n on. It returns false if the structure is full
// before the last.
func (m *member) insert(keys []uint64) bool {
	for i, key := range keys {
		if !m.filter.Insert(key) {
			m.n += uint64(i)
			return false
		}
	}
	m.n += uint64(len(keys))
	return true
}

// failed returns the first error of an operation on a filter of ours.
func (m *member) failed() error {
	if m.mapped == nil || m.mapped.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", m.name, m.mapped.err)
}

// fill inserts keys until the member is full.
func (c *config) fill(m *member) error {
	keys := make([]uint64, 1<<16)
	for m.n < m.full {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		part := keys[:min(uint64(len(keys)), m.full-m.n)]
		c.drawRange(part, m.n)
		if !m.insert(part) {
			m.full = m.n
		}
	}
	return m.failed()
}

func (m *member) close() error {
	if m.mapped == nil {
		return nil
	}
	return m.mapped.close()
}
