package recovery

import (
	"context"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// TailPages is how many pages a TailReader reads at a time: 256 KiB. They are few, so that a cancelled
// build ends soon.
const TailPages = 64

// A TailReader reads the tail of a file of hashes from any page on.
type TailReader struct {
	At    hashes.TailPlace // of the next page
	kept  *Kept
	words []uint64
}

// Seek makes the reader begin at a page of the tail of a file. The reader does not check what comes
// before this page.
func (r *TailReader) Seek(k *Kept, page uint64) error {
	r.kept = k
	if page == k.Header.FirstTail() { // in the order of checks, the header comes before it
		err := r.load(0, 1)
		r.At = k.Header.Tail(r.page(0).Check(0))
		return err
	}
	err := r.load(page-1, 2)
	before := r.page(0).Check(page - 1)
	r.At = hashes.TailPlace{Place: hashes.Place{Identity: k.Header.Identity, Number: page, Before: before}, From: r.page(1).From()}
	return err
}

// load reads pages.
func (r *TailReader) load(first, pages uint64) error {
	n := int(pages) * hashes.PageWords
	r.words = slices.Grow(r.words[:0], n)[:n]
	return r.kept.File.ReadPages(first, r.words)
}

// page returns a page that was read.
func (r *TailReader) page(i uint64) *hashes.Page { return (*hashes.Page)(r.words[i*hashes.PageWords:]) }

// Next calls each for the operations of the next TailPages pages. It reports false once it has read the
// last of those that count, and k.More.
func (r *TailReader) Next(each func(hashes.Entry)) (more bool, err error) {
	k := r.kept
	pages := min(TailPages, k.Counted.Pages-r.At.Number)
	if err := r.load(r.At.Number, pages); err != nil {
		return false, err
	}
	for i := uint64(0); i < pages && r.At.From.Number < k.To.Number; i++ {
		if err := r.At.Read(r.page(i), k.To.Number, each); err != nil {
			return false, err
		}
	}
	switch full := r.At.Number == k.Counted.Pages; {
	case r.At.From.Number < k.To.Number && !full:
		return true, nil
	case full && r.At.Before != k.Counted.Check:
		return false, hashes.Corrupt(r.At.Number-1, "the check is not the one that the superblock names")
	case r.At.From.Number < k.To.Number && k.Last != nil:
		r.At.Number = k.LastNumber
		if err := r.At.Read(k.Last, k.To.Number, each); err != nil {
			return false, err
		}
	}
	if r.At.From != k.To {
		return false, hashes.Corrupt(r.At.Number-1, "the tail ends after operation %d of the history, not %d, or belongs to another history", r.At.From.Number, k.To.Number)
	}
	for _, e := range k.More {
		r.At.From = e.After
		each(e)
	}
	return false, nil
}

// Operations calls each for the operations from a page of the tail on, in their order.
func (k *Kept) Operations(ctx context.Context, page uint64, each func(hashes.Entry)) error {
	r := new(TailReader)
	err := r.Seek(k, page)
	for more := true; more && err == nil; {
		if err = context.Cause(ctx); err == nil {
			more, err = r.Next(each)
		}
	}
	return err
}

// PageOf returns a page of the tail from which to read on to a position: the last full page that begins
// before the position, or the first page.
func (k *Kept) PageOf(number uint64) (page uint64, err error) {
	low, high := k.Header.FirstTail(), k.Counted.Pages // page high begins at number or later, or there is no such page
	var p hashes.Page
	for low+1 < high {
		middle := low + (high-low)/2
		if err := k.File.ReadPages(middle, p[:]); err != nil {
			return 0, err
		}
		if p.From().Number < number {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}
