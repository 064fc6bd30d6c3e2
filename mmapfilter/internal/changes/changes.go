package changes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/klauspost/crc32"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Errors of a Reader. After such an error, do not use the changes that the Reader returned before.
var (
	ErrDamaged = errors.New("the changes are damaged")
	ErrCutOff  = errors.New("the changes are cut off: their end is missing")
)

// Sizes of the stream.
const (
	headerBytes = 96
	blockHeader = 16
	blockMost   = 4096           // changes
	bitsMost    = 40 * blockMost // bytes; the bits of a block take fewer
	version     = 1
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	magic      = binary.LittleEndian.Uint64([]byte("MMAPFCHG"))
)

// A Header says which filter the changes are from, and between which positions.
type Header struct {
	Descent  uint64
	From, To layout.Position
	Classes  Classes // zero if the changes have whole hashes
	// UserSeq and Operations are the sequence of the filter at To: its DurableSeq and DurableOps.
	UserSeq, Operations uint64
}

// Classes say what a filter can tell apart: it has a class for each fingerprint in each line.
type Classes struct{ Lines, Fingerprints uint64 }

// ClassesOf returns the classes of a filter.
func ClassesOf(g layout.Geometry) Classes { return Classes{g.Lines, g.Params.Fingerprints()} }

// IsZero reports whether c is the zero value, which stands for whole hashes.
func (c Classes) IsZero() bool { return c == Classes{} }

// String returns the text of c, such as 1024-5248: its lines and its fingerprints.
func (c Classes) String() string { return fmt.Sprintf("%d-%d", c.Lines, c.Fingerprints) }

// ParseClasses returns the Classes with the given text.
func ParseClasses(text string) (c Classes, err error) {
	_, err = fmt.Sscanf(text, "%d-%d", &c.Lines, &c.Fingerprints)
	if _, ok := c.number(); err != nil || !ok && !c.IsZero() || c.String() != text {
		return Classes{}, fmt.Errorf("%q is not the text of the classes of a filter, such as 1024-5248", text)
	}
	return c, nil
}

// number returns the number of classes. ok is false if there are none, or 2^64 or more.
func (c Classes) number() (n uint64, ok bool) {
	high, n := bits.Mul64(c.Lines, c.Fingerprints)
	return n, high == 0 && n > 0
}

// class returns the value that stands for a hash in changes of n classes, or of whole hashes if n is 0.
func class(hash, n uint64) uint64 {
	if n == 0 {
		return hash
	}
	v, _ := bits.Mul64(hash, n)
	return v
}

// lowest returns the lowest hash that a value stands for. A value is less than n, unless n is 0.
func lowest(value, n uint64) uint64 {
	if n == 0 {
		return value
	}
	hash, rest := bits.Div64(value, 0, n)
	if rest > 0 {
		hash++
	}
	return hash
}

// A Change says how many more items of a hash there are, or how many fewer. If a set of changes has
// classes, the hash is the lowest of a class, and stands for all hashes of this class.
type Change struct {
	Hash  uint64
	Times int64 // how many more items; if negative, how many fewer
}

// bytes returns a header as it is in the stream.
func (h *Header) bytes() []byte {
	b := make([]byte, 0, headerBytes)
	for _, w := range [...]uint64{
		magic, version, h.Descent, h.From.Number, h.From.Chain, h.To.Number, h.To.Chain, h.Classes.Lines, h.Classes.Fingerprints,
		h.UserSeq, h.Operations,
	} {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = append(b, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// headerOf decodes the bytes of a header. It also returns the check of the header.
func headerOf(b *[headerBytes]byte) (h Header, check uint32, err error) {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	check = binary.LittleEndian.Uint32(b[headerBytes-4:])
	switch {
	case word(0) != magic:
		return h, 0, fmt.Errorf("%w: they do not begin with the header of changes", ErrDamaged)
	case check != crc32.Checksum(b[:headerBytes-4], castagnoli):
		return h, 0, fmt.Errorf("%w: their header has a wrong check", ErrDamaged)
	case uint32(word(1)) != version:
		return h, 0, fmt.Errorf("%w: the changes have version %d, but this program reads version %d", layout.ErrVersion, uint32(word(1)), version)
	}
	h = Header{
		Descent: word(2), From: layout.Position{Number: word(3), Chain: word(4)}, To: layout.Position{Number: word(5), Chain: word(6)},
		Classes: Classes{word(7), word(8)}, UserSeq: word(9), Operations: word(10),
	}
	return h, check, h.validate()
}

// validate returns an error if no changes can have this header.
func (h *Header) validate() error {
	if h.From.Number > h.To.Number || h.From.Number == h.To.Number && h.From != h.To {
		return fmt.Errorf("%w: they lead from operation %d to operation %d", ErrDamaged, h.From.Number, h.To.Number)
	}
	if _, ok := h.Classes.number(); !ok && !h.Classes.IsZero() {
		return fmt.Errorf("%w: they are for %d lines and %d fingerprints", ErrDamaged, h.Classes.Lines, h.Classes.Fingerprints)
	}
	return nil
}

// A block has the bytes of a block that come before its bits, with the check.
type block [blockHeader]byte

func (b *block) field(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// newBlock returns the block with the given bits. before is the check of the block
// before, or of the header.
func newBlock(changes, k int, bits []byte, before uint32) (b block) {
	for i, v := range [...]int{changes, len(bits), k} {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	binary.LittleEndian.PutUint32(b[12:], b.check(bits, before))
	return b
}

// check computes the check of a block.
func (b *block) check(bits []byte, before uint32) uint32 {
	first := binary.LittleEndian.AppendUint32(nil, before)
	return crc32.Update(crc32.Checksum(append(first, b[:12]...), castagnoli), castagnoli, bits)
}
