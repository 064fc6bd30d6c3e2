package changes

import (
	"fmt"
	"io"
	"math/bits"
)

// A Writer writes changes, one block at a time. For longer writes, pass it a buffered io.Writer.
type Writer struct {
	w       io.Writer
	classes uint64
	check   uint32
	err     error

	// last waits for further changes of its class. After them it goes to values, the changes of the
	// block.
	last   Change // Hash is a value, not a hash
	began  bool   // last has a change
	values []Change
}

// NewWriter writes a header, and returns a Writer for the changes.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	b := h.bytes()
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	_, check, err := headerOf((*[headerBytes]byte)(b))
	n, _ := h.Classes.number()
	return &Writer{w: w, classes: n, check: check, values: make([]Change, 0, blockMost)}, err
}

// Add adds a change of a whole hash. Call Add in ascending order of the hashes; equal hashes may follow
// one another. Changes of the same hash, or of the same class if the header has classes, become one
// change, their sum, or none if the sum is 0.
func (w *Writer) Add(c Change) error {
	if w.err != nil {
		return w.err
	}
	c.Hash = class(c.Hash, w.classes)
	switch {
	case !w.began:
		w.last, w.began = c, true
	case c.Hash == w.last.Hash:
		w.last.Times += c.Times
	case c.Hash < w.last.Hash:
		panic(fmt.Sprintf("changes: %#x after %#x", c.Hash, w.last.Hash))
	default:
		w.push()
		w.last = c
	}
	return w.err
}

// push adds the last change to the block.
func (w *Writer) push() {
	if w.last.Times == 0 {
		return
	}
	w.values = append(w.values, w.last)
	if len(w.values) == blockMost {
		w.flush()
	}
}

// Close writes the rest and the end mark. It does not close the io.Writer.
func (w *Writer) Close() error {
	w.push()
	if len(w.values) > 0 {
		w.flush()
	}
	w.write(0, 0, nil)
	return w.err
}

// flush writes a block.
func (w *Writer) flush() {
	first, n := w.values[0].Hash, uint64(len(w.values))
	mean := (w.values[n-1].Hash - first) / n
	k := uint(bits.Len64(max(mean, 1))) - 1
	b := bitWriter{bytes: make([]byte, 0, 8*n)}
	before := first - 1
	b.put(before, 64)
	for _, c := range w.values {
		times, fewer := uint64(c.Times), uint64(0)
		if c.Times < 0 {
			times, fewer = -times, 1
		}
		if times > 1 {
			b.rice(0, k)
			b.elias(times - 1)
		}
		b.rice(c.Hash-before, k)
		b.put(fewer, 1)
		before = c.Hash
	}
	w.write(len(w.values), int(k), b.end())
	w.values = w.values[:0]
}

// write writes a block or the end mark.
func (w *Writer) write(changes, k int, bits []byte) {
	b := newBlock(changes, k, bits, w.check)
	w.check = b.field(3)
	for _, part := range [][]byte{b[:], bits} {
		if w.err == nil {
			_, w.err = w.w.Write(part)
		}
	}
}
