package changes

import (
	"fmt"
	"io"
	"math"
)

// A Reader reads changes. It never takes memory for more than one block, whatever the stream says.
type Reader struct {
	Header Header

	r       io.Reader
	classes uint64
	check   uint32
	err     error

	block  block
	left   uint32 // changes of the block
	bits   bitReader
	before uint64 // the value before the next change
	begun  bool   // before is set
	buffer []byte
}

// NewReader reads a header. It reads no further than it needs. Its errors match ErrDamaged, ErrCutOff or
// layout.ErrVersion, or are those of r.
func NewReader(r io.Reader) (*Reader, error) {
	var b [headerBytes]byte
	if err := readFull(r, b[:]); err != nil {
		return nil, err
	}
	h, check, err := headerOf(&b)
	if err != nil {
		return nil, err
	}
	n, _ := h.Classes.number()
	return &Reader{Header: h, r: r, classes: n, check: check}, nil
}

// Next returns the next change, or io.EOF when the end mark and the end of the io.Reader have been read.
// The hashes ascend. After an error, there are no more changes.
func (r *Reader) Next() (c Change, err error) {
	if r.err == nil && r.left == 0 {
		r.err = r.next()
	}
	if r.err == nil {
		c, r.err = r.change()
	}
	if r.err != nil {
		return Change{}, r.err
	}
	return c, nil
}

// next reads the head and the bits of the next block, or the end mark.
func (r *Reader) next() error {
	b := &r.block
	if err := readFull(r.r, b[:]); err != nil {
		return err
	}
	changes, size, k := b.field(0), b.field(1), b.field(2)
	if changes > blockMost || size > bitsMost || k > 63 || changes == 0 && (size > 0 || k > 0) {
		return fmt.Errorf("%w: a block of %d changes in %d bytes, k = %d", ErrDamaged, changes, size, k)
	}
	if r.buffer == nil {
		r.buffer = make([]byte, bitsMost)
	}
	in := r.buffer[:size]
	if err := readFull(r.r, in); err != nil {
		return err
	}
	if b.field(3) != b.check(in, r.check) {
		return fmt.Errorf("%w: a block has a wrong check", ErrDamaged)
	}
	r.check = b.field(3)
	if changes == 0 {
		n, err := io.ReadFull(r.r, r.buffer[:1])
		if n > 0 {
			return fmt.Errorf("%w: more bytes follow their end", ErrDamaged)
		}
		return err // io.EOF
	}
	r.left, r.bits = changes, bitReader{bytes: in}
	before := r.bits.get(64)
	if r.begun && before+1 <= r.before {
		return fmt.Errorf("%w: they are out of order", ErrDamaged)
	}
	r.before, r.begun = before, true
	return nil
}

// change reads a change of the block.
func (r *Reader) change() (c Change, err error) {
	k, times := uint(r.block.field(2)), uint64(1)
	gap, ok := r.bits.rice(k)
	if gap == 0 && ok {
		times, ok = r.bits.elias()
		if times++; ok {
			gap, ok = r.bits.rice(k)
		}
	}
	fewer := r.bits.get(1) == 1
	first := r.left == r.block.field(0)
	value := r.before + gap
	switch {
	case !ok || r.bits.over || gap == 0 || times == 0 || times > math.MaxInt64:
		ok = false
	case value <= r.before && !first, first && gap != 1, r.classes > 0 && value >= r.classes:
		ok = false
	}
	if r.left--; !ok || r.left == 0 && !r.bits.ended() {
		return c, fmt.Errorf("%w: a block has bits that are not changes", ErrDamaged)
	}
	r.before = value
	c = Change{lowest(value, r.classes), int64(times)}
	if fewer {
		c.Times = -c.Times
	}
	return c, nil
}

// readFull is io.ReadFull, but if the input ends too early, the error is ErrCutOff.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrCutOff
	}
	return err
}
