package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// ErrHashes is returned by calls that need the hashes of a filter, if the filter keeps
// none, or if its NAME.hashes is missing or damaged, or belongs to another filter or to
// this filter at another time.
var ErrHashes = errors.New("the hashes of the filter's items are not there")

// A HashesError says why the hashes of a filter's items cannot be used. It matches [ErrHashes].
type HashesError struct {
	NotKept bool  // the filter does not keep them
	Lacking bool  // NAME.hashes was missing or could not be written to, and lacks some hashes
	Missing bool  // NAME.hashes is missing; the error does not match fs.ErrNotExist, since the filter is there
	Err     error // any other reason
}

func (e *HashesError) Error() string {
	why := ""
	switch {
	case e.NotKept:
		why = ": the filter does not keep them"
	case e.Lacking:
		why = " (K2): NAME.hashes was missing or could not be written to, and lacks some hashes"
	case e.Missing:
		why = " (K2): NAME.hashes is missing"
	case e.Err != nil:
		why = ": " + e.Err.Error()
	}
	return ErrHashes.Error() + why
}

// Is reports whether target is [ErrHashes].
func (e *HashesError) Is(target error) bool { return target == ErrHashes }

func (e *HashesError) Unwrap() error { return e.Err }

var (
	errNotKept = &HashesError{NotKept: true}
	errClosed  = &HashesError{Err: errors.New("the filter is closed")}
	errLost    = &HashesError{Lacking: true}
)

// Kept is the part of NAME.hashes that a superblock counts.
type Kept struct {
	File    HashFile
	Counted layout.Hashes
	// The last page of the tail, or nil: page LastNumber of the file, which may be written again.
	Last       *hashes.Page
	LastNumber uint64
	// Base is the number of operations before the position of the base; the tail has the later ones.
	Base uint64
	// AgesFrom is Superblock.AgesFrom.
	AgesFrom uint64
	// More has the operations after those in the file: see Salvage in package osfile.
	More []hashes.Entry
}

// CheckKept returns ErrHashes if, according to its superblock, a filter has no hashes that count.
func CheckKept(sb *layout.Superblock) error {
	switch {
	case !sb.KeepsHashes():
		return errNotKept
	case sb.Hashes().Pages == 0:
		return errLost
	}
	return nil
}

// NoHashes returns ErrHashes with the reason why NAME.hashes cannot be used. If NAME.hashes is
// missing, the error does not match fs.ErrNotExist, since the filter is there.
func NoHashes(why error) error {
	if errors.Is(why, fs.ErrNotExist) {
		return &HashesError{Missing: true}
	}
	return &HashesError{Err: fmt.Errorf("K2: NAME.hashes: %w", why)}
}

// EndOfHashes checks the first and the last of the pages that a superblock counts (K1), and that
// the last page ends at the position of the superblock. It returns the part of the file that
// counts, and a Tail that goes on after this part.
func EndOfHashes(f HashFile, sb *layout.Superblock) (k Kept, end hashes.Tail, err error) {
	k = Kept{File: f, Counted: sb.Hashes(), AgesFrom: sb.AgesFrom()}
	n, err := f.Pages()
	if err != nil {
		return k, end, err
	}
	if n < k.Counted.Pages {
		return k, end, hashes.Corrupt(n, "only %d of the %d pages that count are there", n, k.Counted.Pages)
	}
	pages := twoPages.Get().(*[2]hashes.Page)
	defer twoPages.Put(pages)
	p, q := &pages[0], &pages[1]
	h, err := readHashesHeader(f, k.Counted.Identity, p, q)
	if err != nil {
		return k, end, err
	}
	k.Base = h.At.Number
	at, from := hashes.Place{Identity: k.Counted.Identity, Number: k.Counted.Pages, Before: k.Counted.Check}, h.At
	last, before := k.Counted.Pages-1, uint64(0) // the last full page, and the page before it in the order of checks
	switch first := hashes.FirstBase + h.Pages; {
	case k.Counted.Pages < first:
		return k, end, hashes.Corrupt(0, "%d pages count, too few for a base of %d", k.Counted.Pages, h.Pages)
	case k.Counted.Pages == first:
		last = 0
	case last > first:
		before = last - 1
	}
	if err := errors.Join(f.ReadPages(last, p[:]), f.ReadPages(before, q[:])); err != nil {
		return k, end, err
	}
	if p.Check(last) != k.Counted.Check {
		return k, end, hashes.Corrupt(last, "the check is not the one that the superblock names: the file is from another time")
	}
	if last != 0 {
		place := hashes.Place{Identity: at.Identity, Number: last, Before: q.Check(before)}
		if _, from, err = hashes.ReadTail(p, place, p.From(), func(hashes.Entry) {}); err != nil {
			return k, end, err
		}
	}
	end = *hashes.NewTail(at, from, f.WritePages)
	if from, err = k.readLast(at, from, &end); err != nil {
		return k, end, err
	}
	if from != sb.Kept().At {
		return k, end, hashes.Corrupt(last, "it ends after operation %d of the history, but the superblock is at operation %d, or in another history", from.Number, sb.Kept().At.Number)
	}
	return k, end, nil
}

// readLast reads the last page of the tail if this page is page 1 or 2, and sets end to go on after it.
func (k *Kept) readLast(at hashes.Place, from layout.Position, end *hashes.Tail) (to layout.Position, err error) {
	if k.Counted.Last == 0 {
		return from, nil
	}
	k.Last = new(hashes.Page)
	for at.Number = 1; at.Number < hashes.FirstBase; at.Number++ {
		if err := k.File.ReadPages(at.Number, k.Last[:]); err != nil {
			return from, err
		}
		if k.Last.Check(at.Number) != k.Counted.Last {
			continue
		}
		if _, to, err = hashes.ReadTail(k.Last, at, from, func(hashes.Entry) {}); err == nil {
			k.LastNumber = at.Number
			end.Resume(k.Last, to)
			return to, nil
		}
	}
	return from, errors.Join(err, hashes.Corrupt(1, "neither this page nor the next one has the check of the last page of the tail: the file is from another time"))
}

// ReadHashesHeader reads and checks the header of the file of hashes that has this identity.
func ReadHashesHeader(f HashFile, identity uint64) (hashes.Header, error) {
	pages := twoPages.Get().(*[2]hashes.Page)
	defer twoPages.Put(pages)
	return readHashesHeader(f, identity, &pages[0], &pages[1])
}

// twoPages has buffers of two pages. Local variables would be allocated on the heap in every call.
var twoPages = sync.Pool{New: func() any { return new([2]hashes.Page) }}

// readHashesHeader is ReadHashesHeader with p and q as buffers.
func readHashesHeader(f HashFile, identity uint64, p, q *hashes.Page) (h hashes.Header, err error) {
	if err := f.ReadPages(0, p[:]); err != nil {
		return h, err
	}
	before := uint32(0)
	if n, pages := p.PagesOfBase(), uint64(0); n > 0 {
		n += hashes.FirstBase - 1
		if pages, err = f.Pages(); err == nil && n < pages { // otherwise the header is wrong
			err = f.ReadPages(n, q[:])
			before = q.Check(n)
		}
	}
	if err != nil {
		return h, err
	}
	return hashes.ReadHeader(p, identity, before)
}

// ItemsInPage is about how many items a page of NAME.hashes has.
const ItemsInPage = hashes.BaseItems
