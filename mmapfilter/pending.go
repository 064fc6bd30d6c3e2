package mmapfilter

import (
	"math/bits"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"golang.org/x/sys/cpu"
)

// The pending words are the words of the region that uncommitted operations have stored
// to: the mapping holds durable state only (rule W1). One table has those of the open
// segment, which takes operations, another those of the segment that is being
// committed. When that has been stored to the mapping, its table is dropped as a whole.
//
// One goroutine at a time changes a table. Any number of others look words up meanwhile
// without a lock: a word is entered with its value, gets a new value in one store, and
// is never removed.
type pending struct {
	active     *words // of the open segment
	committing *words // of the segment before, or nil
}

// word returns the value of a word of the region if it is pending.
func (p *pending) word(word uint64) (value uint64, ok bool) {
	if value, ok = p.active.word(word); !ok && p.committing != nil {
		value, ok = p.committing.word(word)
	}
	return value, ok
}

// update brings an image of consecutive words, read from the mapping, up to date.
func (p *pending) update(first uint64, image []uint64) {
	if p.committing != nil {
		p.committing.update(first, image)
	}
	p.active.update(first, image)
}

// has reports whether a block has pending words.
func (p *pending) has(block uint64) bool {
	return p.active.has(block) || p.committing != nil && p.committing.has(block)
}

// mayHave sets the bit of each block for which has would report true, and of a few
// others.
func (p *pending) mayHave(blocks []uint64, set []uint8) {
	p.active.mayHave(blocks, set)
	if p.committing != nil {
		p.committing.mayHave(blocks, set)
	}
}

// prefetchTags prefetches what seemsToHave reads.
func (p *pending) prefetchTags(block uint64) {
	p.active.prefetchTags(block)
	if p.committing != nil {
		p.committing.prefetchTags(block)
	}
}

// seemsToHave reports true for every block for which has would, and for few others of
// those whose bit mayHave has set. It prefetches the words.
func (p *pending) seemsToHave(block uint64) bool {
	seems := p.active.seemsToHave(block)
	if p.committing != nil {
		seems = p.committing.seemsToHave(block) || seems
	}
	return seems
}

// words has the pending words of one segment: a hash table from the number of a word to
// its value. Every lookup loads table; n, which every store changes, shares no cache
// line with it.
type words struct {
	_     cpu.CacheLinePad
	table atomic.Pointer[wordTable]
	_     cpu.CacheLinePad
	n     int
	room  int // of the table, once it has more than minWords
}

// A wordTable has its slots in groups of 8 and uses at most half of them. The words of
// a block of 64 bytes have the same tag, and the search for them starts at the same
// group. A search reads the tags of a group, one byte a slot, as one word.
//
// Most blocks have nothing pending. The blocks filter answers most queries: at most one
// bit in 8 of it is set, and it is an eighth of the size of the groups, so it stays in
// the cache of a core and needs no prefetch. Asking the tags for every block instead
// makes batches of lookups beside a writer take twice as long; 32 bits for each word
// make them no faster than 8.
//
// Entries are appended in chunks, so that they stay where they are when the table
// grows: it is replaced by a larger one with the same entries.
type wordTable struct {
	groups []group
	chunks []*[chunkWords]pendingWord
	shift  uint // 64 less the bits of the number of a group
	blocks blockMarks
}

// A group has 32 bytes and so lies in one cache line. The number of an entry has three
// bytes, the lowest first.
type group struct {
	tags    uint64 // a byte is 0 where the slot is free
	entries [groupSlots][3]uint8
}

func (g *group) entry(slot int) uint32 {
	e := &g.entries[slot]
	return uint32(e[0]) | uint32(e[1])<<8 | uint32(e[2])<<16
}

func (g *group) setEntry(slot int, n uint32) {
	g.entries[slot] = [3]uint8{uint8(n), uint8(n >> 8), uint8(n >> 16)}
}

type pendingWord struct{ word, value uint64 }

const (
	groupSlots = 8
	chunkWords = 512
	minWords   = chunkWords
	bitsAWord  = 8 // of blocks, for each word that there is room for
	// maxPendingWords bounds a segment: past it, it is committed. With its table
	// it is 3.1 MiB.
	maxPendingWords = 1 << 17
)

const _ = uint(1<<24 - maxPendingWords) // the numbers of entries have three bytes

// newWords makes a table for a segment of about n words. It starts small: while a
// segment is being committed, and if nobody writes meanwhile, lookups find the table of
// the next one empty and in the nearest cache.
func newWords(n int) *words {
	m := &words{room: minWords}
	for m.room < n {
		m.room *= 2
	}
	m.table.Store(newWordTable(minWords))
	return m
}

// newWordTable makes a table with room for that many words and clears it: the first
// load from new memory maps a shared page of zeros, and the first store after it would
// then interrupt every processor that runs the process.
func newWordTable(room int) *wordTable {
	groups := 2 * room / groupSlots
	t := &wordTable{
		groups: make([]group, groups),
		chunks: make([]*[chunkWords]pendingWord, room/chunkWords),
		shift:  uint(64 - bits.TrailingZeros(uint(groups))),
		blocks: make(blockMarks, bitsAWord*room/64),
	}
	clear(t.groups)
	clear(t.blocks)
	return t
}

// hashBlock spreads consecutive blocks: Fibonacci hashing (Knuth, volume 3, section
// 6.4). Use the top bits.
func hashBlock(block uint64) uint64 { return block * 0x9E3779B97F4A7C15 }

// start returns the group where a search for the words of a block starts, and their
// tag.
func (t *wordTable) start(block uint64) (group, tag uint64) {
	h := hashBlock(block)
	return h >> t.shift, h>>8&0x7F | 0x80
}

// blockMarks has a bit for each block that has a word, at the number of the block
// modulo the number of bits, which is a power of two.
type blockMarks []uint64

func (m blockMarks) word(block uint64) *uint64 { return &m[block/64&uint64(len(m)-1)] }
func (m blockMarks) of(block uint64) uint64 {
	return atomic.LoadUint64(m.word(block)) >> (block % 64) & 1
}

// set is called by one goroutine at a time.
func (m blockMarks) set(block uint64) {
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

func (t *wordTable) entry(n uint32) *pendingWord { return &t.chunks[n/chunkWords][n%chunkWords] }

// find returns the entry of a word, or nil and the group that has a free slot for it.
func (t *wordTable) find(word uint64) (*pendingWord, *group) {
	i, tag := t.start(word / blockWords)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			if e := t.entry(g.entry(bits.TrailingZeros64(same) / 8)); e.word == word {
				return e, g
			}
		}
		if tags&highBits != highBits { // the group has a free slot
			return nil, g
		}
	}
}

func (m *words) word(word uint64) (value uint64, ok bool) {
	if e, _ := m.table.Load().find(word); e != nil {
		return atomic.LoadUint64(&e.value), true
	}
	return 0, false
}

// update copies the values of its words that lie in the image, whose first word is
// first.
func (m *words) update(first uint64, image []uint64) {
	t := m.table.Load()
	last := first + uint64(len(image)) - 1
	for block := first / blockWords; block <= last/blockWords; block++ {
		if t.blocks.of(block) != 0 {
			t.update(block, first, image)
		}
	}
}

// update is words.update for one block.
func (t *wordTable) update(block, first uint64, image []uint64) {
	i, tag := t.start(block)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			e := t.entry(g.entry(bits.TrailingZeros64(same) / 8))
			if word := e.word - first; word < uint64(len(image)) {
				image[word] = atomic.LoadUint64(&e.value)
			}
		}
		if tags&highBits != highBits {
			return
		}
	}
}

// has reports whether a block has a word.
func (m *words) has(block uint64) bool {
	t := m.table.Load()
	if t.blocks.of(block) == 0 {
		return false
	}
	i, tag := t.start(block)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			if t.entry(g.entry(bits.TrailingZeros64(same)/8)).word/blockWords == block {
				return true
			}
		}
		if tags&highBits != highBits {
			return false
		}
	}
}

// mayHave sets the bit of each block that blocks has marked.
func (m *words) mayHave(blocks []uint64, set []uint8) {
	kernel.TestBits(m.table.Load().blocks, blocks, set)
}

// seemsToHave reports whether a block has words, judging by the tags, which belong to
// another block once in 128. It prefetches the entries in the first group, which has
// nearly always all of them.
func (m *words) seemsToHave(block uint64) bool {
	t := m.table.Load()
	i, tag := t.start(block)
	g := &t.groups[i]
	tags := atomic.LoadUint64(&g.tags)
	same := bytesEqual(tags, tag)
	for left := same; left != 0; left &= left - 1 {
		kernel.Prefetch(&t.entry(g.entry(bits.TrailingZeros64(left) / 8)).word)
	}
	return same != 0 || tags&highBits == highBits
}

func (m *words) prefetchTags(block uint64) {
	t := m.table.Load()
	i, _ := t.start(block)
	kernel.Prefetch(&t.groups[i].tags)
}

// store sets the value of a word.
func (m *words) store(word, value uint64) {
	t := m.table.Load()
	e, g := t.find(word)
	if e != nil {
		atomic.StoreUint64(&e.value, value)
		return
	}
	if m.n == len(t.groups)*groupSlots/2 {
		t = m.grow(t)
		_, g = t.find(word)
	}
	n := uint32(m.n)
	if t.chunks[n/chunkWords] == nil {
		t.chunks[n/chunkWords] = new([chunkWords]pendingWord)
	}
	*t.entry(n) = pendingWord{word, value}
	t.enter(g, word/blockWords, n)
	m.n++
}

// enter shows an entry to lookups, in a free slot of a group. The tag is stored last,
// after the bit of the block.
func (t *wordTable) enter(g *group, block uint64, n uint32) {
	t.blocks.set(block)
	_, tag := t.start(block)
	slot := bits.TrailingZeros64(^g.tags&highBits) / 8
	g.setEntry(slot, n)
	atomic.StoreUint64(&g.tags, g.tags|tag<<(8*slot))
}

func (m *words) grow(t *wordTable) *wordTable {
	larger := newWordTable(max(m.room, len(t.groups)*groupSlots))
	copy(larger.chunks, t.chunks)
	for n := range uint32(m.n) {
		word := t.entry(n).word
		_, g := larger.find(word)
		larger.enter(g, word/blockWords, n)
	}
	m.table.Store(larger)
	return larger
}
