package writer

import "github.com/mmapfilter/mmapfilter/layout"

// An Overlay has the pending words that lookups read: the words of the open segment, and of the segment
// that is being committed. If both segments have a word, the value in the open segment is newer.
type Overlay struct {
	active     *Pending
	committing *Pending // or nil
}

// Over returns the overlay of an open segment when nothing is being committed.
func Over(active *Pending) *Overlay { return &Overlay{active: active} }

// Next returns the overlay to use once the open segment has ended and a new segment is open.
func (o *Overlay) Next() *Overlay {
	return &Overlay{active: NewPending(o.active.n), committing: o.active}
}

// Drop returns the overlay to use once the words of the committing segment are in the file.
func (o *Overlay) Drop() *Overlay { return Over(o.active) }

// Active returns the words of the open segment.
func (o *Overlay) Active() *Pending { return o.active }

// Word returns the value of a word of the region if it is pending.
func (o *Overlay) Word(word uint64) (value uint64, ok bool) {
	if value, ok = o.active.word(word); !ok && o.committing != nil {
		value, ok = o.committing.word(word)
	}
	return value, ok
}

// Update brings up to date an image of consecutive words that was read from the mapping.
func (o *Overlay) Update(first uint64, image []uint64) {
	var l layout.Line
	for end := first + uint64(len(image)); len(image) > 0; first = end - uint64(len(image)) {
		in := first % layout.BlockWords
		part := image[:min(len(image), int(layout.BlockWords-in))]
		if o.Line(first/layout.BlockWords, &l) {
			copy(part, l[in:])
		}
		image = image[len(part):]
	}
}

// Line sets l to the values of a block if the block is pending.
func (o *Overlay) Line(block uint64, l *layout.Line) bool {
	return o.active.line(block, l) || o.committing != nil && o.committing.line(block, l)
}

// Has reports whether a block has pending words, and prefetches them.
func (o *Overlay) Has(block uint64) bool {
	return o.active.has(block) || o.committing != nil && o.committing.has(block)
}

// MayHave sets bit i of set if Has reports true for blocks[i], and for a few other blocks.
func (o *Overlay) MayHave(blocks []uint64, set []uint8) {
	o.active.mayHave(blocks, set)
	if o.committing != nil {
		o.committing.mayHave(blocks, set)
	}
}

// Prefetch prefetches what Has reads.
func (o *Overlay) Prefetch(block uint64) {
	o.active.Prefetch(block)
	if o.committing != nil {
		o.committing.Prefetch(block)
	}
}
