package recovery

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// ErrHashes is returned by what needs the hashes of a filter that keeps none, or whose
// NAME.hashes is missing, damaged, or that of another filter or another time.
var ErrHashes = errors.New("the hashes of the filter's items are not there")

var (
	errNotKept = fmt.Errorf("%w: the filter does not keep them", ErrHashes)
	errClosed  = fmt.Errorf("%w: the filter is closed", ErrHashes)
	errLost    = fmt.Errorf("%w (K2): NAME.hashes was missing or could not be written to, and lacks some", ErrHashes)
)

// EndOfHashes checks that a file has the pages that a superblock counts, as far as the first and
// the last of them show it (K1). It returns the place of the next page, and how many operations
// the tail has.
func EndOfHashes(f HashFile, counted layout.Hashes) (at hashes.Place, operations uint64, err error) {
	n, err := f.Pages()
	if err != nil {
		return at, 0, err
	}
	if n < counted.Pages {
		return at, 0, hashes.Corrupt(n, "only %d of the %d pages that count are there", n, counted.Pages)
	}
	pages := twoPages.Get().(*[2]hashes.Page)
	defer twoPages.Put(pages)
	p, q := &pages[0], &pages[1]
	h, err := readHashesHeader(f, counted.Identity, p, q)
	if err != nil {
		return at, 0, err
	}
	last, before := counted.Pages-1, h.Pages // the pages with the last check and with the one before
	switch {
	case last < h.Pages:
		return at, 0, hashes.Corrupt(0, "%d pages count, of a base of %d", counted.Pages, h.Pages)
	case last == h.Pages:
		last = 0
	case last-1 == h.Pages:
		before = 0
	default:
		before = last - 1
	}
	if err := errors.Join(f.ReadPage(last, p), f.ReadPage(before, q)); err != nil {
		return at, 0, err
	}
	if p.Check(last) != counted.Check {
		return at, 0, hashes.Corrupt(last, "the check is not the one that the superblock names: the file is of another time")
	}
	if last != 0 {
		at := hashes.Place{Identity: counted.Identity, Number: last, Before: q.Check(before)}
		_, operations, err = hashes.ReadTail(p, at, p.OperationsBefore(), func(hashes.Entry) {})
	}
	return hashes.Place{Identity: counted.Identity, Number: counted.Pages, Before: counted.Check}, operations, err
}

// ReadHashesHeader reads and checks the header of a file with an identity.
func ReadHashesHeader(f HashFile, identity uint64) (hashes.Header, error) {
	pages := twoPages.Get().(*[2]hashes.Page)
	defer twoPages.Put(pages)
	return readHashesHeader(f, identity, &pages[0], &pages[1])
}

// twoPages has pages to read to. Local variables would move to the heap on every call.
var twoPages = sync.Pool{New: func() any { return new([2]hashes.Page) }}

// readHashesHeader is ReadHashesHeader with pages to read to.
func readHashesHeader(f HashFile, identity uint64, p, q *hashes.Page) (h hashes.Header, err error) {
	if err := f.ReadPage(0, p); err != nil {
		return h, err
	}
	before := uint32(0)
	if n, pages := p.PagesOfBase(), uint64(0); n > 0 {
		if pages, err = f.Pages(); err == nil && n < pages { // otherwise the header is wrong
			err = f.ReadPage(n, q)
			before = q.Check(n)
		}
	}
	if err != nil {
		return h, err
	}
	return hashes.ReadHeader(p, identity, before)
}

// ItemsInPage is how many items a page of NAME.hashes has, about.
const ItemsInPage = hashes.BaseItems

// A hashFile is a HashFile of the operating system. It is not mapped: it is written to once and
// seldom read, and takes no memory of the process.
type hashFile struct{ *os.File }

func (f hashFile) Pages() (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()) / hashes.PageBytes, nil
}

func (f hashFile) ReadPage(number uint64, p *hashes.Page) error {
	_, err := f.ReadAt(Bytes(p[:]), int64(number)*hashes.PageBytes)
	if errors.Is(err, io.EOF) {
		return hashes.Corrupt(number, "the file ends before this page")
	}
	return err
}

func (f hashFile) WritePage(number uint64, p *hashes.Page) error {
	if err := fault.At("write"); err != nil {
		return err
	}
	_, err := f.WriteAt(Bytes(p[:]), int64(number)*hashes.PageBytes)
	return err
}

func (f hashFile) Truncate(pages uint64) error {
	if err := fault.At("truncate"); err != nil {
		return err
	}
	return f.File.Truncate(int64(pages) * hashes.PageBytes)
}

func (f hashFile) Sync() error { return syncFile(f.File) }

func openHashes(path string, flags int) (HashFile, error) {
	info, err := os.Stat(path) // opening a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular("open", path)
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	return hashFile{f}, nil
}

// OpenHashesOf opens, for reading, the file of hashes that belongs to the filter at path with the
// given superblock. The error is ErrHashes.
func OpenHashesOf(path string, sb *layout.Superblock) (HashFile, error) {
	if !sb.KeepsHashes() {
		return nil, errNotKept
	}
	counted := sb.Hashes()
	if counted.Pages == 0 {
		return nil, errLost
	}
	path, err := realPath(path)
	if err != nil {
		return nil, err
	}
	var first error
	for _, name := range []HashesName{CurrentHashes, NextHashes} {
		f, err := openHashes(path+name.String(), os.O_RDONLY)
		if err == nil {
			if _, _, err = EndOfHashes(f, counted); err == nil {
				return f, nil
			}
			f.Close()
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("%w: NAME.hashes: %w", ErrHashes, first)
}
