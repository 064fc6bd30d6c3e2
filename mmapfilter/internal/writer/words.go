package writer

import (
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A Pending holds the pending blocks of one segment: a hash table from the number of a block to the
// values of its words. A block is kept whole, since an operation on Compact changes most words of a
// line: kept one by one, each word would need a search of its own. Every lookup loads table. Every
// store changes n, so table and n must not share a cache line.
type Pending struct {
	_     cpu.CacheLinePad
	table atomic.Pointer[table]
	_     cpu.CacheLinePad
	n     int // entries
	room  int // entries that the table has room for, once it has more than minRoom
}

// A table has its slots in groups of 8 and uses at most half of them. A search reads the tags of a
// group, one byte per slot, as one word.
//
// Most blocks have nothing pending. The small filter named blocks says so: at most one in 8 of
// its bits is set, and it stays in the cache of a core.
//
// Entries are appended in chunks. Entries stay in place when the table grows: a larger table
// with the same entries replaces the old one.
type table struct {
	groups []group
	chunks []*chunk
	shift  uint // 64 minus the number of bits of a group number
	blocks blockSet
}

// A chunk has entries: the number of a block, and its values.
type chunk [chunkEntries][1 + layout.BlockWords]uint64

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
	// of the nearest cache. With less room, most segments would soon need a larger table; with more,
	// lookups would miss the nearest cache.
	minRoom = chunkEntries

	// MaxWords bounds a segment: operations wait for a commit before it has more. Operations that
	// come at the same time may exceed the bound, since each block that they enter counts as several
	// words.
	MaxWords = 1 << 20

	// blockCounts is how many words a block counts as: about as many as an operation changes. A
	// block takes 81 bytes: 72 for its entry, 8 for two slots, 1 for blocks. So MaxWords take 21
	// MiB.
	blockCounts = 4
)

const _ = uint(1<<24 - MaxWords) // the numbers of entries have three bytes

// NewPending makes a table for a segment of about n blocks. It starts small, so that lookups find it in
// the nearest cache if no operations come while the previous segment is committed.
func NewPending(n int) *Pending {
	m := &Pending{room: minRoom}
	for m.room < n {
		m.room *= 2
	}
	m.table.Store(newTable(minRoom))
	return m
}

// Len returns the number of words, of which a block counts as blockCounts. Only the goroutine that
// stores may call it.
func (m *Pending) Len() int { return m.n * blockCounts }

// newTable makes a table with room for a number of entries. It stores to all of its memory.
// Otherwise, if a lookup were the first to load from a new page, the load would map a shared page
// of zeros, and the first store to this page would interrupt every processor that runs the
// process.
func newTable(room int) *table {
	groups := 2 * room / groupSlots
	t := &table{
		groups: make([]group, groups),
		chunks: make([]*chunk, room/chunkEntries),
		shift:  uint(64 - bits.TrailingZeros(uint(groups))),
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

func (t *table) entry(n uint32) *[1 + layout.BlockWords]uint64 {
	return &t.chunks[n/chunkEntries][n%chunkEntries]
}

// find returns the values of a block, or nil and the group that has a free slot for it.
func (t *table) find(block uint64) (*layout.Line, *group) {
	i, tag := t.start(block)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			if e := t.entry(g.entry(bits.TrailingZeros64(same) / 8)); e[0] == block {
				return (*layout.Line)(e[1:]), g
			}
		}
		if tags&highBits != highBits { // the group has a free slot
			return nil, g
		}
	}
}

func (m *Pending) word(word uint64) (value uint64, ok bool) {
	if values, _ := m.table.Load().find(word / layout.BlockWords); values != nil {
		return atomic.LoadUint64(&values[word%layout.BlockWords]), true
	}
	return 0, false
}

// line sets l to a block, if it is there.
func (m *Pending) line(block uint64, l *layout.Line) bool {
	t := m.table.Load()
	if t.blocks.of(block) == 0 {
		return false
	}
	values, _ := t.find(block)
	if values == nil {
		return false
	}
	for i := range values {
		l[i] = atomic.LoadUint64(&values[i])
	}
	return true
}

// has reports whether a block is there.
func (m *Pending) has(block uint64) bool {
	t := m.table.Load()
	if t.blocks.of(block) == 0 {
		return false
	}
	values, _ := t.find(block)
	return values != nil
}

// mayHave sets the bit of each block that is marked in the table's blocks.
func (m *Pending) mayHave(blocks []uint64, set []uint8) {
	kernel.TestBits(m.table.Load().blocks, blocks, set)
}

// seemsToHave reports whether a block seems to be there by the tags alone: two blocks have the
// same tag with a chance of 1 in 128. It prefetches the entries in the first group, which
// nearly always has the block.
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

// PrefetchTags prefetches the tags that seemsToHave reads and that Store needs first.
func (m *Pending) PrefetchTags(block uint64) {
	t := m.table.Load()
	i, _ := t.start(block)
	kernel.Prefetch(&t.groups[i].tags)
}

// StoreWords sets the words of a block that are in the bit set words. If the block is not there,
// StoreWords enters the whole block at once; before sets l to the newest values of its words.
func (m *Pending) StoreWords(block uint64, words uint8, values *layout.Line, before func(block uint64, l *layout.Line)) {
	t := m.table.Load()
	l, g := t.find(block)
	if l != nil {
		for ; words != 0; words &= words - 1 {
			i := bits.TrailingZeros8(words) % layout.BlockWords
			atomic.StoreUint64(&l[i], values[i])
		}
		return
	}
	if m.n == len(t.groups)*groupSlots/2 {
		t = m.grow(t)
		_, g = t.find(block)
	}
	n := uint32(m.n)
	if t.chunks[n/chunkEntries] == nil {
		t.chunks[n/chunkEntries] = new(chunk)
	}
	e := t.entry(n)
	e[0], l = block, (*layout.Line)(e[1:])
	before(block, l)
	for ; words != 0; words &= words - 1 {
		i := bits.TrailingZeros8(words) % layout.BlockWords
		l[i] = values[i]
	}
	t.enter(g, block, n)
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
	larger := newTable(max(m.room, len(t.groups)*groupSlots))
	copy(larger.chunks, t.chunks)
	for n := range uint32(m.n) {
		block := t.entry(n)[0]
		_, g := larger.find(block)
		larger.enter(g, block, n)
	}
	m.table.Store(larger)
	return larger
}
