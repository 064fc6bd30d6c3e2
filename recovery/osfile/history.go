package osfile

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A HistoryFile is a file of hashes that has a part of a history: the operations from the position of
// its base to the position To.
type HistoryFile struct {
	File   recovery.HashFile
	Header hashes.Header
	To     layout.Position
	Pages  uint64     // the numbers of all pages are below this
	last   []lastPage // candidates for the last page of the tail: see Walk.last
}

// A lastPage is a page after the header.
type lastPage struct {
	number uint64
	page   *hashes.Page
}

// mostParts limits how many files of a history are opened. It is more than any use needs, and less
// than a process may have open.
const mostParts = 256

// OpenHistory opens files of the history of the filter at path and returns them, the oldest first. The
// first has the operations after position since, and the last is the file that the superblock names. If
// since is before the base of the first, the file that had this position is gone. An error is ErrHashes.
func OpenHistory(path string, sb *layout.Superblock, since uint64) (files []HistoryFile, err error) {
	defer func() {
		if err != nil {
			CloseHistory(files)
		}
	}()
	kept, err := OpenHashesOf(path, sb)
	if err != nil {
		return nil, err
	}
	h := HistoryFile{File: kept.File, To: sb.Kept().At, Pages: kept.Counted.Pages}
	files = []HistoryFile{h}
	if files[0].Header, err = recovery.ReadHashesHeader(kept.File, kept.Counted.Identity); err != nil {
		return files, recovery.NoHashes(err)
	}
	if kept.Last != nil {
		files[0].last = []lastPage{{kept.LastNumber, kept.Last}}
	}
	for files[0].Header.At.Number > since && len(files) < mostParts {
		past, err := openPart(path, &files[0])
		if errors.Is(err, fs.ErrNotExist) {
			return files, nil
		}
		if err != nil {
			return files, recovery.NoHashes(err)
		}
		files = slices.Insert(files, 0, past)
	}
	return files, nil
}

// openPart opens the file that next has replaced. If this file is gone, or is damaged at its
// beginning, the error is fs.ErrNotExist.
func openPart(path string, next *HistoryFile) (h HistoryFile, err error) {
	if path, err = realPath(path); err != nil {
		return h, err
	}
	if next.Header.Before == (layout.Hashes{}) {
		return h, fs.ErrNotExist
	}
	h = HistoryFile{To: next.Header.At}
	if h.File, err = openPast(path, next.Header.Before.Identity); err != nil {
		return h, err
	}
	// The header of next has two checks of pages of this file. The check of page 1 or 2 may be out of
	// date, since later checkpoints may have written the page again. So openPart compares neither, but
	// Walk checks that the operations lead to the position of next.
	h.Header, err = recovery.ReadHashesHeader(h.File, next.Header.Before.Identity)
	if err == nil {
		h.Pages, err = h.File.Pages()
	}
	for number := uint64(1); number < hashes.FirstBase && err == nil; number++ {
		p := new(hashes.Page)
		err = h.File.ReadPages(number, p[:])
		h.last = append(h.last, lastPage{number, p})
	}
	if err == nil && h.Header.At.Number > h.To.Number {
		err = hashes.Corrupt(0, "it begins after operation %d of the history, where the next file begins", h.To.Number)
	}
	if err != nil {
		err = errors.Join(err, h.File.Close())
		if errors.Is(err, layout.ErrCorrupt) {
			err = fs.ErrNotExist
		}
	}
	return h, err
}

// CloseHistory closes the files.
func CloseHistory(files []HistoryFile) (err error) {
	for i := range files {
		err = errors.Join(err, files[i].File.Close())
	}
	return err
}

// FirstPage returns the number of the first page of the tail.
func (h *HistoryFile) FirstPage() uint64 { return hashes.FirstBase + h.Header.Pages }

// PageOf returns a page of the tail from which to walk to a position: the last full page that begins
// before the position, or the first page.
func (h *HistoryFile) PageOf(number uint64) (page uint64, err error) {
	low, high := h.FirstPage(), h.Pages // page high begins at number or later, or there is no such page
	var p hashes.Page
	for low+1 < high {
		middle := low + (high-low)/2
		if err := h.File.ReadPages(middle, p[:]); err != nil {
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

// walkAtOnce is how many pages a walk reads at a time: 256 KiB.
const walkAtOnce = 64

// A Walk reads the operations of a HistoryFile in their order.
type Walk struct {
	file  *HistoryFile
	place hashes.Place // of the next page
	from  layout.Position
	words []uint64
}

// Walk returns a Walk that begins at a page of the tail.
func (h *HistoryFile) Walk(page uint64) (*Walk, error) {
	before := page - 1
	if page == h.FirstPage() {
		before = 0 // in the order of checks
	}
	w := &Walk{file: h, from: h.Header.At, words: make([]uint64, walkAtOnce*hashes.PageWords)}
	p := (*hashes.Page)(w.words)
	if err := h.File.ReadPages(before, p[:]); err != nil {
		return nil, err
	}
	w.place = hashes.Place{Identity: h.Header.Identity, Number: page, Before: p.Check(before)}
	if page > h.FirstPage() {
		if err := h.File.ReadPages(page, p[:]); err != nil {
			return nil, err
		}
		w.from = p.From()
	}
	return w, nil
}

// Next calls each for the operations of some pages, and passes the position after the operation. It
// reports false after the last operation.
func (w *Walk) Next(each func(e hashes.Entry, after layout.Position)) (more bool, err error) {
	h := w.file
	if n := min(walkAtOnce, h.Pages-min(w.place.Number, h.Pages)); n > 0 && w.from.Number < h.To.Number {
		words := w.words[:n*hashes.PageWords]
		if err := h.File.ReadPages(w.place.Number, words); err != nil {
			return false, err
		}
		for ; len(words) > 0 && w.from.Number < h.To.Number && err == nil; words = words[hashes.PageWords:] {
			err = w.read((*hashes.Page)(words), each)
		}
		if err == nil {
			return true, nil
		}
	}
	if last := w.last(); last != nil {
		err = w.read(last, each)
	}
	if err == nil && w.from != h.To {
		err = hashes.Corrupt(w.place.Number, "its tail ends after operation %d of the history, not %d, or belongs to another history", w.from.Number, h.To.Number)
	}
	return false, err
}

// last returns the last page of the tail: page 1 or 2, whichever continues the full pages or, if
// both do, has more operations. It returns nil if no operation is missing, or if neither page
// continues the full pages.
func (w *Walk) last() (last *hashes.Page) {
	if w.from.Number == w.file.To.Number {
		return nil
	}
	before, end := w.place, uint64(0)
	for _, l := range w.file.last {
		place := hashes.Place{Identity: before.Identity, Number: l.number, Before: before.Before}
		if _, to, err := hashes.ReadTail(l.page, place, w.from, func(hashes.Entry) {}); err == nil && to.Number > end {
			last, end, w.place = l.page, to.Number, place
		}
	}
	return last
}

// read reads the next page.
func (w *Walk) read(p *hashes.Page, each func(hashes.Entry, layout.Position)) error {
	at := w.from
	next, to, err := hashes.ReadTail(p, w.place, w.from, func(e hashes.Entry) {
		if at.Number == w.file.To.Number {
			return // the next file has this operation
		}
		at = at.After(e.Op, e.Hash)
		each(e, at)
	})
	if err != nil {
		return err
	}
	if w.place, w.from = next, to; to.Number > w.file.To.Number {
		w.from = at
	}
	return nil
}
