package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// ErrHashes is returned by what needs the hashes of a filter that keeps none, or whose
// NAME.hashes is missing, damaged, or that of another filter or another time.
var ErrHashes = errors.New("the hashes of the filter's items are not there")

var (
	errNotKept = fmt.Errorf("%w: the filter does not keep them", ErrHashes)
	errClosed  = fmt.Errorf("%w: the filter is closed", ErrHashes)
	errLost    = fmt.Errorf("%w (K2): NAME.hashes was missing or could not be written to, and lacks some", ErrHashes)
)

// A keeper writes the hashes of a filter to NAME.hashes (K2). One goroutine at a time uses it:
// the one that recovers the file, ends a checkpoint, or closes the file.
type keeper struct {
	on         bool // the file keeps its hashes
	file       HashFile
	counted    layout.Hashes // what the next superblock says
	at         hashes.Place  // of the next page
	operations uint64        // in the tail
	cut        bool          // the file ends before that page
	generation uint64        // the last one whose hashes are in the file
	pages      atomic.Uint64 // counted.Pages
	lost       atomic.Pointer[error]
}

// err returns why the hashes cannot be used, or nil.
func (k *keeper) err() error {
	if !k.on {
		return errNotKept
	}
	if e := k.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// lose records why the hashes cannot be used. From the next superblock on no page counts: whatever
// is there later lacks what is done from now on.
func (k *keeper) lose(err error) {
	k.counted.Pages, k.counted.Check = 0, 0
	k.pages.Store(0)
	if !errors.Is(err, ErrHashes) {
		err = fmt.Errorf("%w: %w", ErrHashes, err)
	}
	k.lost.CompareAndSwap(nil, &err)
}

// openHashes finds the NAME.hashes that the superblock names. If there is none, the filter can
// be used all the same.
func (w *Writer) openHashes() error {
	k := &w.kept
	if k.on = w.sb.KeepsHashes(); !k.on {
		return nil
	}
	k.counted = w.sb.Hashes()
	k.pages.Store(k.counted.Pages)
	if k.counted.Pages == 0 {
		k.lose(errLost)
		return nil
	}
	var wrong error // what is wrong with the file of the usual name, or else with the other one
	for _, name := range []HashesName{CurrentHashes, NextHashes} {
		f, err := w.vol.OpenHashes(name)
		if errors.Is(err, fs.ErrNotExist) && wrong != nil {
			continue
		}
		if err == nil && k.file != nil { // left by a rebuild that did not end
			if err := errors.Join(f.Close(), w.vol.RemoveHashes(name)); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			k.at, k.operations, err = EndOfHashes(f, k.counted)
			if err != nil {
				f.Close()
			}
		}
		switch {
		case err != nil && (wrong == nil || errors.Is(wrong, fs.ErrNotExist)):
			wrong = err
		case err == nil:
			k.file = f
			if name == NextHashes {
				if err := w.vol.KeepHashes(); err != nil {
					return err
				}
			}
		}
	}
	if k.file == nil {
		k.lose(fmt.Errorf("K2: NAME.hashes: %w", wrong))
	}
	return nil
}

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
	var p, q hashes.Page
	h, err := readHashesHeader(f, counted.Identity, &p, &q)
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
	if err := errors.Join(f.ReadPage(last, &p), f.ReadPage(before, &q)); err != nil {
		return at, 0, err
	}
	if p.Check(last) != counted.Check {
		return at, 0, hashes.Corrupt(last, "the check is not the one that the superblock names: the file is of another time")
	}
	if last != 0 {
		at := hashes.Place{Identity: counted.Identity, Number: last, Before: q.Check(before)}
		_, operations, err = hashes.ReadTail(&p, at, p.OperationsBefore(), func(hashes.Entry) {})
	}
	return hashes.Place{Identity: counted.Identity, Number: counted.Pages, Before: counted.Check}, operations, err
}

// ReadHashesHeader reads and checks the header of a file with an identity.
func ReadHashesHeader(f HashFile, identity uint64) (hashes.Header, error) {
	var p, q hashes.Page
	return readHashesHeader(f, identity, &p, &q)
}

// readHashesHeader is ReadHashesHeader with pages to read to: they are on the heap.
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

// keep appends the hashes of a generation of the log to NAME.hashes and makes them durable (K2).
// If that fails, the filter does without: nothing else depends on them.
func (w *Writer) keep(generation uint64, each func(do func(log []uint64, b wal.Segment))) {
	k := &w.kept
	if k.err() != nil || generation <= k.generation {
		return
	}
	if err := w.tryKeep(each); err != nil {
		k.lose(err)
		return
	}
	k.generation = generation
}

func (w *Writer) tryKeep(each func(do func(log []uint64, b wal.Segment))) (err error) {
	k := &w.kept
	if !k.cut {
		// A writer that died may have appended more, which no superblock counts.
		if err := k.file.Truncate(k.at.Number); err != nil {
			return err
		}
		k.cut = true
	}
	now := uint64(0) // for operations without a commit
	tail := hashes.NewTail(k.at, k.operations, k.file.WritePage)
	each(func(log []uint64, b wal.Segment) {
		committed := b.Time
		if committed == 0 {
			if now == 0 {
				now = w.vol.Now()
			}
			committed = now
		}
		b.Each(log, func(r wal.Record) {
			if !r.HasHash || err != nil {
				return
			}
			kind := hashes.Insert
			if r.Grow < 0 {
				kind = hashes.Delete
			}
			err = tail.Add(kind, r.Hash, committed)
		})
	})
	if err != nil {
		return err
	}
	at, operations, err := tail.End()
	if err != nil || at == k.at {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	k.at, k.operations = at, operations
	k.counted.Pages, k.counted.Check = at.Number, at.Before
	k.pages.Store(at.Number)
	return nil
}

// keepEnded is keep for a generation that this process has written.
func (w *Writer) keepEnded(log File, generation, salt uint64) {
	w.keep(generation, func(do func([]uint64, wal.Segment)) {
		words := log.Words()
		for b := range wal.Ended(words, generation, salt) {
			do(words, b)
		}
	})
}

// keepAll keeps the hashes of everything that has been hardened. No segment may be open.
func (w *Writer) keepAll() {
	if c := w.pending.Load(); c != nil {
		w.keepEnded(c.ended, c.generation, c.salt)
	}
	if w.lw != nil {
		generation, salt := w.lw.Generation()
		w.keepEnded(w.log, generation, salt)
	}
}

// Hashes returns NAME.hashes and what counts of it. The error is ErrHashes. What counts stays as
// it is while the file is appended to. No checkpoint may end meanwhile.
func (w *Writer) Hashes() (HashFile, layout.Hashes, error) {
	if err := w.kept.err(); err != nil {
		return nil, layout.Hashes{}, err
	}
	return w.kept.file, w.kept.counted, nil
}

// ItemsInPage is how many items a page of NAME.hashes has, about.
const ItemsInPage = hashes.BaseItems

// HashesPages returns how many pages of NAME.hashes count. It may be called at any time.
func (w *Writer) HashesPages() uint64 { return w.kept.pages.Load() }

// HashesErr returns why Hashes would fail, or nil. It may be called at any time.
func (w *Writer) HashesErr() error { return w.kept.err() }
