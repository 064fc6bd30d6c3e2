package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
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

// Kept is the part that counts of a file of hashes: NAME.hashes, or a file that it has replaced.
type Kept struct {
	File    HashFile
	Header  hashes.Header
	Counted layout.Hashes
	// The last page of the tail, or nil: page LastNumber of the file, which may be written again.
	Last       *hashes.Page
	LastNumber uint64
	// To is the position after the last operation of the file that counts.
	To layout.Position
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

// FindHashes opens the file of hashes that a superblock names, under whichever name it has. The error is
// ErrHashes, for the reason why the file with the usual name cannot be used, if there is one.
func FindHashes(sb *layout.Superblock, open func(HashesName) (HashFile, error)) (k Kept, name HashesName, err error) {
	for _, name := range []HashesName{CurrentHashes, NextHashes} {
		f, wrong := open(name)
		if wrong == nil {
			if k, wrong = EndOfHashes(f, sb); wrong == nil {
				return k, name, nil
			}
			f.Close()
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) && !errors.Is(wrong, fs.ErrNotExist) {
			err = wrong
		}
	}
	return Kept{}, name, NoHashes(err)
}

// EndOfHashes checks the first and the last of the pages that a superblock counts (K1), and that the
// last page ends at the position of the superblock.
func EndOfHashes(f HashFile, sb *layout.Superblock) (k Kept, err error) {
	k = Kept{File: f, Counted: sb.Hashes(), AgesFrom: sb.AgesFrom()}
	end, err := k.lastFull()
	if err == nil {
		err = k.readLast(end)
	}
	if err == nil && k.To != sb.Kept().At {
		err = hashes.Corrupt(k.Counted.Pages-1, "it ends after operation %d of the history, but the superblock is at operation %d, or in another history", k.To.Number, sb.Kept().At.Number)
	}
	return k, err
}

// PastHashes returns the part that counts of the file that another file has replaced: the operations up
// to the position of the base of the other file, which has the header next (K8). The header has the
// check of page 1 or 2, too. But PastHashes does not compare it, since later checkpoints may have
// written the page again.
func PastHashes(f HashFile, next *hashes.Header) (k Kept, err error) {
	k = Kept{File: f, Counted: next.Before}
	end, err := k.lastFull()
	if err != nil {
		return k, err
	}
	k.Counted.Last, k.To = 0, end.From
	k.ReadOn()
	k.To = next.At
	return k, nil
}

// lastFull reads the header and the last full page of the tail, and returns the place after this page.
func (k *Kept) lastFull() (end hashes.TailPlace, err error) {
	n, err := k.File.Pages()
	if err != nil {
		return end, err
	}
	if n < k.Counted.Pages {
		return end, hashes.Corrupt(n, "only %d of the %d pages that count are there", n, k.Counted.Pages)
	}
	pages := twoPages.Get().(*[2]hashes.Page)
	defer twoPages.Put(pages)
	p, q := &pages[0], &pages[1]
	if k.Header, err = readHashesHeader(k.File, k.Counted.Identity, p, q); err != nil {
		return end, err
	}
	last, before := k.Counted.Pages-1, uint64(0) // the last full page, and the page before it in the order of checks
	switch first := k.Header.FirstTail(); {
	case k.Counted.Pages < first:
		return end, hashes.Corrupt(0, "%d pages count, too few for a base of %d", k.Counted.Pages, k.Header.Pages)
	case k.Counted.Pages == first:
		last = 0
	case last > first:
		before = last - 1
	}
	if err := errors.Join(k.File.ReadPages(last, p[:]), k.File.ReadPages(before, q[:])); err != nil {
		return end, err
	}
	if p.Check(last) != k.Counted.Check {
		return end, hashes.Corrupt(last, "the check is not the one that the superblock names: the file is from another time")
	}
	if last == 0 {
		return k.Header.Tail(k.Counted.Check), nil
	}
	end = hashes.TailPlace{Place: hashes.Place{Identity: k.Counted.Identity, Number: last, Before: q.Check(before)}, From: p.From()}
	err = pass(&end, p)
	return end, err
}

// pass moves at past a page.
func pass(at *hashes.TailPlace, p *hashes.Page) error {
	return at.Read(p, math.MaxUint64, func(hashes.Entry) {})
}

// readLast reads the last page of the tail if this page is page 1 or 2. at is the place after the full
// pages.
func (k *Kept) readLast(at hashes.TailPlace) (err error) {
	if k.To = at.From; k.Counted.Last == 0 {
		return nil
	}
	for number := uint64(1); number < hashes.FirstBase; number++ {
		p, end := new(hashes.Page), at
		if err := k.File.ReadPages(number, p[:]); err != nil {
			return err
		}
		if p.Check(number) != k.Counted.Last {
			continue
		}
		end.Number = number
		if err = pass(&end, p); err == nil {
			k.Last, k.LastNumber, k.To = p, number, end.From
			return nil
		}
	}
	return errors.Join(err, hashes.Corrupt(1, "neither this page nor the next one has the check of the last page of the tail: the file is from another time"))
}

// place returns the place after the full pages.
func (k *Kept) place() hashes.TailPlace {
	at := hashes.TailPlace{Place: hashes.Place{Identity: k.Counted.Identity, Number: k.Counted.Pages, Before: k.Counted.Check}, From: k.To}
	if k.Last != nil {
		at.From = k.Last.From()
	}
	return at
}

// Tail returns a Tail that goes on after the part that counts.
func (k *Kept) Tail() *hashes.Tail {
	tail := hashes.NewTail(k.place(), k.File.WritePages)
	if k.Last != nil {
		tail.Resume(k.Last, k.To)
	}
	return tail
}

// ReadOn adds to k the intact pages after those that count.
func (k *Kept) ReadOn() {
	at, p := k.place(), new(hashes.Page)
	read := func(number uint64) (end hashes.TailPlace, ok bool) {
		end = at
		end.Number = number
		ok = k.File.ReadPages(number, p[:]) == nil && pass(&end, p) == nil
		return end, ok
	}
	for {
		end, ok := read(at.Number)
		if !ok {
			break
		}
		at = end
		k.Counted.Pages, k.Counted.Check, k.Counted.Last = at.Number, at.Before, 0
		k.Last, k.To = nil, at.From
	}
	for number := uint64(1); number < hashes.FirstBase; number++ {
		if end, ok := read(number); ok && end.From.Number > k.To.Number {
			last := *p
			k.Last, k.LastNumber, k.Counted.Last, k.To = &last, number, p.Check(number), end.From
		}
	}
}

// twoPages has buffers of two pages. Local variables would be allocated on the heap in every call.
var twoPages = sync.Pool{New: func() any { return new([2]hashes.Page) }}

// readHashesHeader reads and checks the header of the file of hashes that has this identity. p and q are
// buffers.
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
