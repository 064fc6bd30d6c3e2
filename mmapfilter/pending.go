package mmapfilter

import (
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

// An imageTable has at most half of its keys in use. A key is the line and,
// below, the number of its image plus one; images are in chunks, so that they
// stay where they are when the table grows.
type imageTable struct {
	keys   []uint64
	chunks []*[chunkLines]layout.Line
	shift  uint // 64 less the bits of an index into keys
}

const (
	chunkLines    = 64
	imageBits     = 24
	minImageKeys  = 2 * chunkLines
	minImageShift = 64 - 7
	// maxPendingLines bounds a batch: past it, it is committed. It is 8 MiB of
	// images.
	maxPendingLines = 1 << 17
)

func newImages() *images {
	m := new(images)
	m.table.Store(newImageTable(minImageKeys, minImageShift))
	return m
}

func newImageTable(keys int, shift uint) *imageTable {
	return &imageTable{
		keys:   make([]uint64, keys),
		chunks: make([]*[chunkLines]layout.Line, keys/2/chunkLines),
		shift:  shift,
	}
}

// slot gives the index into keys where a search for a line begins. Fibonacci
// hashing (Knuth, volume 3, section 6.4) spreads lines that follow one another.
func (t *imageTable) slot(line uint64) uint64 { return line * 0x9E3779B97F4A7C15 >> t.shift }

func (m *images) line(line uint64) *layout.Line {
	t := m.table.Load()
	mask := uint64(len(t.keys) - 1)
	for i := t.slot(line); ; i = (i + 1) & mask {
		key := atomic.LoadUint64(&t.keys[i])
		if key == 0 {
			return nil
		}
		if key>>imageBits == line {
			return t.image(key&(1<<imageBits-1) - 1)
		}
	}
}

func (t *imageTable) image(n uint64) *layout.Line { return &t.chunks[n/chunkLines][n%chunkLines] }

// add enters a line that is not there, with an image.
func (m *images) add(line uint64, image *layout.Line) {
	t := m.table.Load()
	if m.n == len(t.keys)/2 {
		t = m.grow(t)
	}
	n := uint64(m.n)
	if t.chunks[n/chunkLines] == nil {
		t.chunks[n/chunkLines] = new([chunkLines]layout.Line)
	}
	*t.image(n) = *image
	t.enter(line, n)
	m.n++
}

func (t *imageTable) enter(line, n uint64) {
	mask := uint64(len(t.keys) - 1)
	i := t.slot(line)
	for t.keys[i] != 0 {
		i = (i + 1) & mask
	}
	atomic.StoreUint64(&t.keys[i], line<<imageBits|(n+1))
}

func (m *images) grow(t *imageTable) *imageTable {
	larger := newImageTable(2*len(t.keys), t.shift-1)
	copy(larger.chunks, t.chunks)
	for _, key := range t.keys {
		if key != 0 {
			larger.enter(key>>imageBits, key&(1<<imageBits-1)-1)
		}
	}
	m.table.Store(larger)
	return larger
}
