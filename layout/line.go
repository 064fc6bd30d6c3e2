package layout

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Params are the parameters of a layout. Compact has the last two. The layouts of the paper have the
// first two, which the paper calls f and b (section 4). Parameters that a layout does not have are 0.
type Params struct {
	FingerprintBits, BucketSize int // f bits in a fingerprint, b slots in a bucket
	Quotients, RemainderBits    int // a fingerprint is a quotient below Quotients, and a remainder of RemainderBits bits
}

// Fingerprints returns how many fingerprints there are. In the layouts of the paper, 0 is not
// one of them: it means an empty slot.
func (p Params) Fingerprints() uint64 {
	return uint64(p.Quotients)<<p.RemainderBits + (1<<p.FingerprintBits - 1)
}

// String returns the parameters in the terms of their layout, such as "Q=41 r=7" or "f=12 b=4".
func (p Params) String() string {
	if p.Quotients != 0 {
		return fmt.Sprintf("Q=%d r=%d", p.Quotients, p.RemainderBits)
	}
	return fmt.Sprintf("f=%d b=%d", p.FingerprintBits, p.BucketSize)
}

// A Line is an image of one line: the words of the region that hold it, as many as
// [Looks.Words] says. The functions of its layout read and change it. If lines share a
// word, the image holds bits of other lines too, which stay as they are.
type Line [8]uint64

// Stores lists the words of a line that one change touches. If a writer stores them one
// by one in this order, no item is missing at any instant: an item that moves is stored
// at its destination before it leaves its source. (A writer may use another order where
// readers cannot tell: see Record.Gather of package wal.)
type Stores struct {
	n       uint8
	guarded uint8 // bit i: the i-th store
	words   [8]uint8
}

// Add appends a word. A nil s lists nothing.
func (s *Stores) Add(word uint64, guarded bool) {
	if s == nil {
		return
	}
	if guarded {
		s.guarded |= 1 << s.n
	}
	s.words[s.n] = uint8(word)
	s.n++
}

// Len returns the number of words.
func (s *Stores) Len() int { return int(s.n) }

// At returns word i of the list, as an index into the image, and whether its store is guarded.
// A store is guarded if it clears or overwrites a slot that held something, or if readers would
// misread the word until other words of the line are stored too.
func (s *Stores) At(i int) (word int, guarded bool) { return int(s.words[i]), s.guarded>>i&1 != 0 }

// An Item is what a table keeps of a key, seen from one of its two lines. Only a table that
// implements [Hosts] records which of the two is the home line.
type Item struct {
	Line   uint64 // the line that the item is seen from
	Bucket uint32 // a bucket of the item in this line; the other bucket follows from Fp
	Fp     uint32 // fingerprint
}

// A Class is all items with the same lines, the same buckets and the same fingerprint, which
// a table cannot tell apart. It is the key of a stash entry; "Stash" in the package essay has
// the encoding.
type Class struct {
	Line   uint64 // the lower of the two lines; in a Hosts, the home line
	Bucket uint32 // the lower of the two buckets
	Fp     uint32
}

// LineAt returns a line of a region whose lines are blocks of 64 bytes.
func LineAt(region []uint64, line uint64) *Line { return (*Line)(region[line*BlockWords:]) }

// LoadOf reads a word of a line that a writer may be storing to.
func LoadOf(l *Line, i uint64) uint64 { return kernel.Load(&l[i%BlockWords]) }
