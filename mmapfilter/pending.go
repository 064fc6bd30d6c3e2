package mmapfilter

import (
	"math/bits"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// The pending table is what the operations that are not durable make of the
// lines they touch: the mapping holds durable state only (rule W1). There is one
// for the batch that takes operations, and one for the batch that is being made
// durable; when the latter has been stored to the mapping, it is dropped as a
// whole.
//
// One goroutine at a time changes it, and any number look things up in it
// meanwhile, without a lock: a line is entered after its image is complete, and
// no entry goes away. A table that is full is replaced by a larger one with the
// same images.
type pending struct {
	active     *images // of the open batch
	committing *images // of the batch before, or nil
}

// line gives the newest image of a line, or nil where that is the mapping's.
func (p *pending) line(line uint64) *layout.Line {
	if l := p.active.line(line); l != nil || p.committing == nil {
		return l
	}
	return p.committing.line(line)
}

// images are those of one batch: a hash table from line to image.
type images struct {
	table atomic.Pointer[imageTable]
	n     int // lines
}

// An imageTable has its slots in groups of 8, and at most half of them in use. A
// lookup reads the tags of a group, one byte a slot, as one word: for a line that
// is not pending, and most are not, that is nearly always all it reads. To enter a
// line touches the same group. Images are written one after the other, in chunks,
// so that they stay where they are when the table grows.
type imageTable struct {
	groups []group
	chunks []*[chunkLines]pendingLine
	shift  uint // 64 less the bits of the number of a group
}

type group struct {
	tags   uint64 // a byte is 0 where the slot is free
	images [groupSlots]uint32
}

// A pendingLine is the newest state of a line.
type pendingLine struct {
	line  uint64
	words layout.Line
}

const (
	groupSlots = 8
	chunkLines = 64
	minImages  = chunkLines
	// maxPendingLines bounds a batch: past it, it is committed. It is 8 MiB of
	// images.
	maxPendingLines = 1 << 17
)

// newImages makes a table that has room for n lines before it grows.
func newImages(n int) *images {
	room := minImages
	for room < n {
		room *= 2
	}
	m := new(images)
	m.table.Store(newImageTable(room))
	return m
}

func newImageTable(room int) *imageTable {
	groups := 2 * room / groupSlots
	return &imageTable{
		groups: make([]group, groups),
		chunks: make([]*[chunkLines]pendingLine, room/chunkLines),
		shift:  uint(64 - bits.TrailingZeros(uint(groups))),
	}
}

// find gives the group where a search for a line begins, and its tag. Fibonacci
// hashing (Knuth, volume 3, section 6.4) spreads lines that follow one another.
func (t *imageTable) find(line uint64) (group, tag uint64) {
	h := line * 0x9E3779B97F4A7C15
	return h >> t.shift, h>>8&0x7F | 0x80
}

const (
	everyByte = 0x0101010101010101
	lowBits   = 0x7F * everyByte
	highBits  = 0x80 * everyByte
)

// bytesEqual has the high bit of each byte of w that is b, and no other.
func bytesEqual(w, b uint64) uint64 {
	x := w ^ b*everyByte
	return ^(x&lowBits + lowBits | x | lowBits)
}

func (m *images) line(line uint64) *layout.Line {
	t := m.table.Load()
	i, tag := t.find(line)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		tags := atomic.LoadUint64(&g.tags)
		for same := bytesEqual(tags, tag); same != 0; same &= same - 1 {
			if image := t.image(g.images[bits.TrailingZeros64(same)/8]); image.line == line {
				return &image.words
			}
		}
		if tags&highBits != highBits { // the group has a free slot
			return nil
		}
	}
}

func (t *imageTable) image(n uint32) *pendingLine { return &t.chunks[n/chunkLines][n%chunkLines] }

// add enters a line that is not there, with its words.
func (m *images) add(line uint64, words *layout.Line) {
	t := m.table.Load()
	if m.n == len(t.groups)*groupSlots/2 {
		t = m.grow(t)
	}
	n := uint32(m.n)
	if t.chunks[n/chunkLines] == nil {
		t.chunks[n/chunkLines] = new([chunkLines]pendingLine)
	}
	image := t.image(n)
	image.line, image.words = line, *words
	t.enter(line, n)
	m.n++
}

// enter shows an image to lookups: its tag comes last.
func (t *imageTable) enter(line uint64, n uint32) {
	i, tag := t.find(line)
	for mask := uint64(len(t.groups) - 1); ; i = (i + 1) & mask {
		g := &t.groups[i]
		if free := bytesEqual(g.tags, 0); free != 0 {
			slot := bits.TrailingZeros64(free) / 8
			g.images[slot] = n
			atomic.StoreUint64(&g.tags, g.tags|tag<<(8*slot))
			return
		}
	}
}

func (m *images) grow(t *imageTable) *imageTable {
	larger := newImageTable(len(t.groups) * groupSlots)
	copy(larger.chunks, t.chunks)
	for n := range uint32(m.n) {
		larger.enter(t.image(n).line, n)
	}
	m.table.Store(larger)
	return larger
}
