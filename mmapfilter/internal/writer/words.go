package writer

import (
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A Unit is what Words keeps together.
type Unit uint

// For a layout that changes a word or two of a line, the unit is a word. In one that changes most of a
// line, each word would need a search of its own, among the others of the block: there it is the block.
const (
	OneWord  Unit = 0 // the binary logarithm of the number of its words
	OneBlock Unit = 3
)

const _ = uint(layout.BlockWords - 1<<OneBlock)

// A Pending holds the pending words of one segment: a hash table from the number of a unit to the values
// of its words. Every lookup loads table. Every store changes n, so the two must not share a cache
// line.
type Pending struct {
	_     cpu.CacheLinePad
	table atomic.Pointer[table]
	_     cpu.CacheLinePad
	n     int // entries
	room  int // entries that the table has room for, once it has more than minRoom
	unit  Unit
}

// A table has its slots in groups of 8 and uses at most half of them. The words of a block of 64
// bytes have the same tag, and the search for them starts at the same group. A search reads the
// tags of a group, one byte per slot, as one word.
//
// Most blocks have nothing pending, and the filter blocks says so: at most one in 8 of its bits
// is set, and it is small enough to stay in the cache of a core.
//
// Entries are appended in chunks. They stay in place when the table grows: a larger table with
// the same entries replaces it. An entry is the number of its unit, and the values.
type table struct {
	groups []group
	chunks [][]uint64
	shift  uint // 64 minus the number of bits of a group number
	unit   Unit
	blocks blockSet
}

// A group has 32 bytes, so that it lies in one cache line. An entry number has three bytes, the
// lowest first.
type group struct {
	tags    uint64 // a byte is 0 if its slot is free
	entries [groupSlots][3]uint8
}

func (g *group) entry(slot int) uint32 {
	e := &g.entries[slot]
	return uint32(e[0]) | uint32(e[1])<<8 | uint32(e[2])<<16
}

func (g *group) setEntry(slot int, n uint32) {
	g.entries[slot] = [3]uint8{uint8(n), uint8(n >> 8), uint8(n >> 16)}
}

const (
	groupSlots   = 8
	chunkEntries = 512
	bitsAnEntry  = 8 // bits of blocks per entry of room

	// minRoom is the room of a table at first: one chunk, whose groups and blocks take less than 5 KiB
	// of the nearest cache. With less, most segments would have a larger table soon; with more, lookups
	// would miss that cache.
	minRoom = chunkEntries

	// MaxWords bounds a segment: operations wait for a commit before it has more. A word takes 25
	// bytes: 16 for its entry, 8 for two slots, 1 for blocks. So MaxWords take 25 MiB.
	MaxWords = 1 << 20

	// blockCounts is how many words a block counts as. It takes 81 bytes.
	blockCounts = 4
)

const _ = uint(1<<24 - MaxWords) // the numbers of entries have three bytes

// NewPending makes a table for a segment of about n units. It starts small, so that lookups find it in
// the nearest cache if no operations come while the previous segment is committed.
func NewPending(unit Unit, n int) *Pending {
	m := &Pending{room: minRoom, unit: unit}
	for m.room < n {
		m.room *= 2
	}
	m.table.Store(newTable(unit, minRoom))
	return m
}

// Len returns the number of words; a block counts as blockCounts words. Only the goroutine that stores
// may call it.
func (m *Pending) Len() int {
	if m.unit == OneBlock {
		return m.n * blockCounts
	}
	return m.n
}

// newTable makes a table with room for that many entries. It stores to all of it: if a lookup were
// the first to load from a new page, the load would map a shared page of zeros, and the first
// store to it would interrupt every processor that runs the process.
func newTable(unit Unit, room int) *table {
	groups := 2 * room / groupSlots
	t := &table{
		groups: make([]group, groups),
		chunks: make([][]uint64, room/chunkEntries),
		shift:  uint(64 - bits.TrailingZeros(uint(groups))),
		unit:   unit,
		blocks: make(blockSet, bitsAnEntry*room/64),
	}
	clear(t.groups)
	clear(t.blocks)
	return t
}

// hashBlock spreads consecutive blocks: Fibonacci hashing (Knuth, volume 3, section
// 6.4). Use the top bits.
func hashBlock(block uint64) uint64 { return block * 0x9E3779B97F4A7C15 }

// start returns the group where the search for the words of a block starts, and their tag.
func (t *table) start(block uint64) (group, tag uint64) {
	h := hashBlock(block)
	return h >> t.shift, h>>8&0x7F | 0x80
}

// blockSet has a bit for each block that has a word. Its index is the block number modulo the
// number of bits, a power of two.
type blockSet []uint64

func (m blockSet) word(block uint64) *uint64 { return &m[block/64&uint64(len(m)-1)] }
func (m blockSet) of(block uint64) uint64 {
	return atomic.LoadUint64(m.word(block)) >> (block % 64) & 1
}

// set must be called by one goroutine at a time.
func (m blockSet) set(block uint64) {
	if m.of(block) == 0 {
		word := m.word(block)
		atomic.StoreUint64(word, *word|1<<(block%64))
	}
}

const (
	everyByte = 0x0101010101010101
	lowBits   = 0x7F * everyByte
	highBits  = 0x80 * everyByte
)

// bytesEqual returns the high bit of each byte of w that equals b.
func bytesEqual(w, b uint64) uint64 {
	x := w ^ b*everyByte
	return ^(x&lowBits + lowBits | x | lowBits)
}

// entry returns the number of a unit and its values.
func (t *table) entry(n uint32) []uint64 {
	size := 1 + 1<<t.unit
	at := int(n%chunkEntries) * size
	return t.chunks[n/chunkEntries][at : at+size]
}

func (t *table) block(unit uint64) uint64 { return unit >> (OneBlock - t.unit) }

// find returns the values of a unit, or nil and the group that has a free slot for it.
func (t *table) find(unit uint64) ([]uint64, *group) {
	i, tag := t.start(t.block(unit))
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			if e := t.entry(g.entry(bits.TrailingZeros64(same) / 8)); e[0] == unit {
				return e[1:], g
			}
		}
		if tags&highBits != highBits { // the group has a free slot
			return nil, g
		}
	}
}

func (m *Pending) word(word uint64) (value uint64, ok bool) {
	t := m.table.Load()
	if values, _ := t.find(word >> t.unit); values != nil {
		return atomic.LoadUint64(&values[word&(1<<t.unit-1)]), true
	}
	return 0, false
}

// line sets l to a block, if it is there. The unit is OneBlock.
func (m *Pending) line(block uint64, l *layout.Line) bool {
	t := m.table.Load()
	if t.blocks.of(block) == 0 {
		return false
	}
	values, _ := t.find(block)
	if values == nil {
		return false
	}
	v := (*layout.Line)(values)
	for i := range v {
		l[i] = atomic.LoadUint64(&v[i])
	}
	return true
}

// update copies the values of the words that lie in image, which starts at word first.
func (m *Pending) update(first uint64, image []uint64) {
	t := m.table.Load()
	last := first + uint64(len(image)) - 1
	for block := first / layout.BlockWords; block <= last/layout.BlockWords; block++ {
		if t.blocks.of(block) != 0 {
			t.update(block, first, image)
		}
	}
}

// update is Words.update for one block.
func (t *table) update(block, first uint64, image []uint64) {
	i, tag := t.start(block)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			e := t.entry(g.entry(bits.TrailingZeros64(same) / 8))
			for i := range e[1:] {
				if word := e[0]<<t.unit + uint64(i) - first; word < uint64(len(image)) {
					image[word] = atomic.LoadUint64(&e[1+i])
				}
			}
		}
		if tags&highBits != highBits {
			return
		}
	}
}

// has reports whether a block has a word.
func (m *Pending) has(block uint64) bool {
	t := m.table.Load()
	if t.blocks.of(block) == 0 {
		return false
	}
	i, tag := t.start(block)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			if t.block(t.entry(g.entry(bits.TrailingZeros64(same) / 8))[0]) == block {
				return true
			}
		}
		if tags&highBits != highBits {
			return false
		}
	}
}

// mayHave sets the bit of each block that is marked in the table's blocks.
func (m *Pending) mayHave(blocks []uint64, set []uint8) {
	kernel.TestBits(m.table.Load().blocks, blocks, set)
}

// seemsToHave reports whether a block seems to have words, judging by the tags; one block in 128
// has the tag of another. It prefetches the entries in the first group, which nearly always has
// all of them.
func (m *Pending) seemsToHave(block uint64) bool {
	t := m.table.Load()
	i, tag := t.start(block)
	g := &t.groups[i]
	tags := atomic.LoadUint64(&g.tags)
	same := bytesEqual(tags, tag)
	for left := same; left != 0; left &= left - 1 {
		e := t.entry(g.entry(bits.TrailingZeros64(left) / 8))
		kernel.Prefetch(&e[0])
		kernel.Prefetch(&e[len(e)-1])
	}
	return same != 0 || tags&highBits == highBits
}

// PrefetchTags prefetches what seemsToHave reads, and what Store needs first.
func (m *Pending) PrefetchTags(block uint64) {
	t := m.table.Load()
	i, _ := t.start(block)
	kernel.Prefetch(&t.groups[i].tags)
}

// Store sets the value of a word. The unit is OneWord.
func (m *Pending) Store(word, value uint64) {
	values, g := m.table.Load().find(word)
	if values != nil {
		atomic.StoreUint64(&values[0], value)
		return
	}
	g, values = m.next(g, word)
	values[0] = value
	m.enter(g, word/layout.BlockWords)
}

// StoreWords sets the words of a block that are in the bit set words. If the block has no entry, it
// enters all of its words at once: before sets l to their newest values. The unit is OneBlock.
func (m *Pending) StoreWords(block uint64, words uint8, values *layout.Line, before func(block uint64, l *layout.Line)) {
	found, g := m.table.Load().find(block)
	if found != nil {
		l := (*layout.Line)(found)
		for ; words != 0; words &= words - 1 {
			i := bits.TrailingZeros8(words) % layout.BlockWords
			atomic.StoreUint64(&l[i], values[i])
		}
		return
	}
	g, found = m.next(g, block)
	l := (*layout.Line)(found)
	before(block, l)
	for ; words != 0; words &= words - 1 {
		i := bits.TrailingZeros8(words) % layout.BlockWords
		l[i] = values[i]
	}
	m.enter(g, block)
}

// next begins an entry for a unit and returns its values, to be set before enter. g is a group with a
// free slot for the unit; if next makes a larger table, it returns the group there.
func (m *Pending) next(g *group, unit uint64) (*group, []uint64) {
	t := m.table.Load()
	if m.n == len(t.groups)*groupSlots/2 {
		t = m.grow(t)
		_, g = t.find(unit)
	}
	n := uint32(m.n)
	if t.chunks[n/chunkEntries] == nil {
		t.chunks[n/chunkEntries] = make([]uint64, chunkEntries*(1+1<<t.unit))
	}
	e := t.entry(n)
	e[0] = unit
	return g, e[1:]
}

// enter shows the next entry, of a block, to lookups.
func (m *Pending) enter(g *group, block uint64) {
	m.table.Load().enter(g, block, uint32(m.n))
	m.n++
}

// enter shows an entry to lookups, in a free slot of a group. It stores the tag last, after the
// bit of the block.
func (t *table) enter(g *group, block uint64, n uint32) {
	t.blocks.set(block)
	_, tag := t.start(block)
	slot := bits.TrailingZeros64(^g.tags&highBits) / 8
	g.setEntry(slot, n)
	atomic.StoreUint64(&g.tags, g.tags|tag<<(8*slot))
}

func (m *Pending) grow(t *table) *table {
	larger := newTable(m.unit, max(m.room, len(t.groups)*groupSlots))
	copy(larger.chunks, t.chunks)
	for n := range uint32(m.n) {
		unit := t.entry(n)[0]
		_, g := larger.find(unit)
		larger.enter(g, t.block(unit), n)
	}
	m.table.Store(larger)
	return larger
}
