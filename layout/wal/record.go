package wal

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Store sets one word of a filter file.
type Store struct {
	Word    uint64 // number of the word in the file
	Value   uint64
	Guarded bool // see W4; in Compact all stores are guarded, except stores of overflow bits
}

// A Record is what one operation stores to one block of 64 bytes. Shifting a line of
// layout compact by a slot is one record; so is moving an item between two buckets of a
// line. The package essay has its encoding.
type Record struct {
	Block     uint64                    // words 8·Block to 8·Block+7 of the file
	Words     uint8                     // bit i: the record stores to word i of the block
	Values    [layout.BlockWords]uint64 // new values of the words in Words; 0 for all other words
	Guarded   bool                      // at least one store is guarded
	Last      bool
	Grow      int       // if Last: change of the length, -1 to 1
	Operation uint32    // if Last: number of the operation modulo 2^32
	Op        layout.Op // if Last: what the operation means in the history, or 0 without a history
	Hash      uint64    // of the key, if Op is not 0
	Mark      bool      // it is a mark record, and has no words: see NewMark
}

// NewMark returns a mark record: it stores nothing, and says where a replica with hashes is in the
// history that it follows. A mark record is the last record of its segment, and counts if the commit
// of the segment counts.
func NewMark(followed layout.Position, set uint64, operation uint32) *Record {
	return &Record{Mark: true, Last: true, Operation: operation, Values: [layout.BlockWords]uint64{followed.Number, followed.Chain, set}}
}

// marked returns what a mark record says.
func (r *Record) marked() (followed layout.Position, set uint64) {
	return layout.Position{Number: r.Values[0], Chain: r.Values[1]}, r.Values[2]
}

// MarkStores is how many stores Writer.Room must count for a mark record.
const MarkStores = (markWords + recordWords - 1) / recordWords

// maxRecordWords is the length of a record of a whole block, with a hash.
const maxRecordWords = layout.BlockWords + 3

const (
	recordWordBits = 48
	recordGuarded  = 1 << 48
	recordLast     = 1 << 49
	recordGrow     = 1 << 50
	recordShrink   = 1 << 51
	recordOthers   = 52 // first bit of the mask of further words
	recordOtherSet = 1<<(layout.BlockWords-1) - 1
	recordNoWords  = 1 << 59
	recordOp       = 60 // first bit
	recordMark     = 1 << 62
	recordUnused   = 1 << 63

	markHead  = recordNoWords | recordLast | recordMark // word 0 of a mark record
	markWords = 5
)

// Gather sets r to the record of the leading stores that share a block, and returns the
// remaining stores.
//
// The stores of a record happen in word order, which need not be their order in the
// operation. This is safe: if one of them removes a fingerprint, the record is guarded,
// and all of it is stored while the removal counter of the block is odd; otherwise the
// stores only add, or clear overflow bits or a group mark that no lookup needs. (The first
// word of a new stash entry must be stored before the second, which is word order.)
func (r *Record) Gather(stores []Store) (rest []Store) {
	*r = Record{}
	if len(stores) == 0 {
		return nil
	}
	r.Block = stores[0].Word / layout.BlockWords
	for i, s := range stores {
		if s.Word/layout.BlockWords != r.Block {
			return stores[i:]
		}
		r.Words |= 1 << (s.Word % layout.BlockWords)
		r.Values[s.Word%layout.BlockWords] = s.Value
		r.Guarded = r.Guarded || s.Guarded
	}
	return nil
}

// Counter returns the removal counter of the block: see [layout.CounterOf].
func (r *Record) Counter() uint64 { return layout.CounterOf(r.Block * layout.BlockWords) }

// Each calls do for each word that the record stores to, in word order.
func (r *Record) Each(do func(word, value uint64)) {
	for left := r.Words; left != 0; left &= left - 1 {
		i := bits.TrailingZeros8(left)
		do(r.Block*layout.BlockWords+uint64(i), r.Values[i])
	}
}

// head returns word 0 of the record without its flags.
func (r *Record) head() uint64 {
	if r.Mark {
		return markHead
	}
	if r.Words == 0 {
		return recordNoWords
	}
	first := bits.TrailingZeros8(r.Words)
	return r.Block*layout.BlockWords + uint64(first) | uint64(r.Words>>first>>1)<<recordOthers
}

// encode writes all but the last word of the record to w and returns their number.
func (r *Record) encode(w *[maxRecordWords - 1]uint64) (n int) {
	w[0] = r.head()
	if r.Guarded {
		w[0] |= recordGuarded
	}
	if r.Last {
		w[0] |= recordLast
	}
	switch r.Grow {
	case 1:
		w[0] |= recordGrow
	case -1:
		w[0] |= recordShrink
	}
	n = 1
	for left := r.Words; left != 0; left &= left - 1 {
		w[n] = r.Values[bits.TrailingZeros8(left)]
		n++
	}
	if r.Op != 0 {
		w[0] |= uint64(r.Op) << recordOp
		w[n] = r.Hash
		n++
	}
	if r.Mark {
		n += copy(w[n:markWords-1], r.Values[:])
	}
	return n
}

// recordLength returns the number of words of the record that begins with w0. w0 may be a word that
// begins no record; then the number means nothing.
func recordLength(w0 uint64) uint64 {
	values := 1 + uint64(bits.OnesCount64(w0>>recordOthers&recordOtherSet)) - w0/recordNoWords%2
	return max(1+values+min(w0>>recordOp&3, 1)+1, recordWords) + w0/recordMark%2*(markWords-recordWords)
}

// valid reports whether w0 can be word 0 of a record. A record has no unknown bits, and its words are
// in one block. Only the last record of an operation has an item effect and a meaning in the history,
// and the meaning allows the effect. A record without words has only a meaning, or is a mark record.
func valid(w0 uint64) bool {
	const effect = recordGrow | recordShrink
	op, last := layout.Op(w0>>recordOp&3), w0&recordLast != 0
	switch {
	case w0 == markHead:
		return true
	case w0&recordNoWords != 0:
		return w0&^(3<<recordOp) == recordNoWords|recordLast && op.May(0)
	case w0&(recordMark|recordUnused) != 0 || w0&effect == effect || !oneBlock(w0):
		return false
	case op != 0:
		return last && op.May(itemEffect(w0))
	}
	return last || w0&effect == 0
}

// itemEffect returns by how many items the record that begins with w0 changes the length.
func itemEffect(w0 uint64) int { return int(w0/recordGrow%2) - int(w0/recordShrink%2) }

// oneBlock reports whether all words of the record that begins with w0 are in one block.
func oneBlock(w0 uint64) bool {
	return w0%layout.BlockWords+uint64(bits.Len64(w0>>recordOthers&recordOtherSet)) < layout.BlockWords
}

// decodeRecord decodes the words of a record of one block.
func decodeRecord(w []uint64) (r Record) {
	r.decode(w)
	return r
}

func (r *Record) decode(w []uint64) {
	w0, w2 := w[0], w[len(w)-1]
	first := w0 % layout.BlockWords
	words := uint8((w0>>recordOthers&recordOtherSet<<1 | 1) << first)
	if w0&recordNoWords != 0 {
		words = 0
	}
	*r = Record{} // setting all fields in one literal would make a copy
	r.Block = w0 & (1<<recordWordBits - 1) / layout.BlockWords
	r.Words = words
	r.Guarded = w0&recordGuarded != 0
	r.Last = w0&recordLast != 0
	r.Operation = uint32(w2 >> 32)
	for i, left := 1, words; left != 0; i, left = i+1, left&(left-1) {
		r.Values[bits.TrailingZeros8(left)] = w[i]
	}
	r.Grow = itemEffect(w0)
	if r.Op = layout.Op(w0 >> recordOp & 3); r.Op != 0 {
		r.Hash = w[len(w)-2]
	}
	if r.Mark = w0 == markHead; r.Mark {
		copy(r.Values[:], w[1:markWords-1])
	}
}

// ReadRecord returns the record at a word of a log, and the word after it. The record must
// be known to be intact.
func ReadRecord(log []uint64, at uint64) (r Record, next uint64) {
	next = NextRecord(log, at)
	return decodeRecord(log[at:next]), next
}

// NextRecord returns the word after the record at a word of a log.
func NextRecord(log []uint64, at uint64) uint64 { return at + recordLength(log[at]) }

// RecordWord returns the first word of the file that the record at a word of a log
// stores to.
func RecordWord(log []uint64, at uint64) uint64 { return log[at] & (1<<recordWordBits - 1) }
