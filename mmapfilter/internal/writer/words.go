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
// line, and each word would otherwise need a search of its own. Every lookup loads table. Every store
// changes n, so table and n must not share a cache line.
type Pending struct {
	_     cpu.CacheLinePad
	table atomic.Pointer[table]
	_     cpu.CacheLinePad
	n     int // entries in the table
	room  int // room of the table once it has more than minRoom entries
}

// A table uses at most half of its slots. A search goes from slot to slot, up to a free slot.
//
// Most blocks have no pending words. For most of these, the field blocks, a small filter, says so: at
// most one in 8 of its bits is set, and it stays in the cache of a core.
//
// Entries are appended in chunks. They stay in place when the table grows: a larger table with the same
// chunks replaces the old one.
type table struct {
	slots  []uint64 // 0 if free; else the number of a block and, in the low entryBits, the number of its entry plus 1
	chunks []*chunk
	shift  uint // 64 minus the number of bits of a slot number
	blocks blockSet
}

// A chunk has entries: the values of blocks. Each entry is in one cache line.
type chunk [chunkEntries]layout.Line

const (
	chunkEntries = 512
	entryBits    = 24
	bitsAnEntry  = 8 // bits of blocks per entry of room

	// minRoom is the room of a new table: one chunk, whose slots and blocks take less than 9 KiB of
	// the nearest cache. With less room, most segments would soon need a larger table; with more,
	// lookups would miss the nearest cache.
	minRoom = chunkEntries

	// MaxWords bounds a segment: operations wait for a commit before the segment has more words.
	// Operations that come at the same time may exceed the bound, since each block that they enter
	// counts as several words.
	MaxWords = 1 << 20

	// blockCounts is how many words each block counts as, about as many as an operation changes. A block
	// takes 81 bytes: 64 for its entry, 16 for two slots, 1 for blocks. So MaxWords take 21 MiB.
	blockCounts = 4
)

const _ = uint(1<<entryBits - MaxWords) // the number of a block has 39 bits (layout.Geometry), so a slot has room for both

// NewPending returns a table for a segment of about n blocks. The table starts small, so that lookups
// find it in the nearest cache if no operations come while the previous segment is committed.
func NewPending(n int) *Pending {
	m := &Pending{room: minRoom}
	for m.room < n {
		m.room *= 2
	}
	m.table.Store(newTable(minRoom))
	return m
}

// Len returns the number of words, where each block counts as blockCounts words. Only the goroutine
// that stores may call it.
func (m *Pending) Len() int { return m.n * blockCounts }

// newTable returns a table with room for a number of entries. It stores to all memory of the
// table. Otherwise, if a lookup were the first to load from a new page, the load would map a
// shared page of zeros, and the first store to this page would interrupt every processor
// that runs the process.
func newTable(room int) *table {
	t := &table{
		slots:  make([]uint64, 2*room),
		chunks: make([]*chunk, room/chunkEntries),
		shift:  uint(64 - bits.TrailingZeros(uint(2*room))),
		blocks: make(blockSet, bitsAnEntry*room/64),
	}
	clear(t.slots)
	clear(t.blocks)
	return t
}

// start returns the number of the slot where the search for a block starts. It spreads consecutive
// blocks by Fibonacci hashing (Knuth, volume 3, section 6.4).
func (t *table) start(block uint64) (slot uint64) { return block * 0x9E3779B97F4A7C15 >> t.shift }

// blockSet has the bits of all blocks with pending words. The index of a bit is the number of the block
// modulo the number of bits, a power of two.
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

func (t *table) entry(n uint64) *layout.Line { return &t.chunks[n/chunkEntries][n%chunkEntries] }

// find returns the values of a block, or nil and the free slot for it.
func (t *table) find(block uint64) (*layout.Line, *uint64) {
	for i := t.start(block); ; i++ {
		slot := &t.slots[i&uint64(len(t.slots)-1)]
		switch s := atomic.LoadUint64(slot); {
		case s == 0:
			return nil, slot
		case s>>entryBits == block:
			return t.entry(s&(1<<entryBits-1) - 1), nil
		}
	}
}

func (m *Pending) word(word uint64) (value uint64, ok bool) {
	if values, _ := m.table.Load().find(word / layout.BlockWords); values != nil {
		return atomic.LoadUint64(&values[word%layout.BlockWords]), true
	}
	return 0, false
}

// line sets l to the values of a block, if m has the block.
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

// has reports whether m has a block, and prefetches its values.
func (m *Pending) has(block uint64) bool {
	t := m.table.Load()
	if t.blocks.of(block) == 0 {
		return false
	}
	values, _ := t.find(block)
	if values == nil {
		return false
	}
	kernel.Prefetch(&values[0])
	return true
}

// mayHave sets bit i of set if blocks[i] has its bit in the blockSet.
func (m *Pending) mayHave(blocks []uint64, set []uint8) {
	kernel.TestBits(m.table.Load().blocks, blocks, set)
}

// Prefetch prefetches the slots that has reads, and that StoreWords needs first.
func (m *Pending) Prefetch(block uint64) {
	t := m.table.Load()
	kernel.Prefetch(&t.slots[t.start(block)])
}

// StoreWords stores words of a block: the word i of values if bit i of words is set. If m does not
// have the block yet, StoreWords enters the whole block at once; before sets l to the newest
// values of the other words.
func (m *Pending) StoreWords(block uint64, words uint8, values *layout.Line, before func(block uint64, l *layout.Line)) {
	t := m.table.Load()
	l, slot := t.find(block)
	if l != nil {
		for ; words != 0; words &= words - 1 {
			i := bits.TrailingZeros8(words) % layout.BlockWords
			atomic.StoreUint64(&l[i], values[i])
		}
		return
	}
	if m.n == len(t.slots)/2 {
		t = m.grow(t)
		_, slot = t.find(block)
	}
	n := uint64(m.n)
	if t.chunks[n/chunkEntries] == nil {
		t.chunks[n/chunkEntries] = new(chunk)
	}
	l = t.entry(n)
	before(block, l)
	for ; words != 0; words &= words - 1 {
		i := bits.TrailingZeros8(words) % layout.BlockWords
		l[i] = values[i]
	}
	t.blocks.set(block)
	atomic.StoreUint64(slot, block<<entryBits|(n+1)) // last: lookups find the entry from now on
	m.n++
}

func (m *Pending) grow(t *table) *table {
	larger := newTable(max(m.room, len(t.slots)))
	copy(larger.chunks, t.chunks)
	for _, s := range t.slots {
		if s != 0 {
			larger.blocks.set(s >> entryBits)
			_, slot := larger.find(s >> entryBits)
			*slot = s
		}
	}
	m.table.Store(larger)
	return larger
}
