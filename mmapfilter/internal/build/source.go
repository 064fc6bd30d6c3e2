package build

import (
	"context"
	"errors"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A source has the hashes of the items to build a filter from, partitioned by their top bits.
type source interface {
	Parts() int // a power of two
	// count returns how many hashes there are, counting equal ones. If all is false, deletes may
	// take some of these, and only load knows which are left.
	count() (hashes uint64, all bool)
	// load returns the sorted hashes of the partitions [from, to), and sets w.read and w.ages. If
	// distinct is set, it returns one of each group of equal hashes. With drop, load is not called
	// for these partitions again.
	load(w *worker, from, to int, drop, distinct bool) ([]uint64, error)
	// done makes the checks that are possible once all partitions have been loaded with drop.
	done() error
	Close()
}

// errStopped is returned when a task stops early; another error, or a panic, says why.
var errStopped = errors.New("stopped before all keys were read")

func (s *spool) done() error                      { return nil }
func (s *spool) count() (hashes uint64, all bool) { return s.total.Load(), true }

// A pageFile writes pages that follow one another, many at a time.
type pageFile struct {
	file  recovery.HashFile
	first uint64
	words []uint64
}

// writeAtOnce is how many pages a pageFile gathers, 256 KiB of them, since the page cache takes a few
// long writes faster than many short ones.
const writeAtOnce = 64

func (w *pageFile) write(number uint64, page []uint64) error {
	if n := len(w.words) / hashes.PageWords; n == writeAtOnce || number != w.first+uint64(n) {
		if err := w.flush(); err != nil {
			return err
		}
		w.first = number
	}
	w.words = append(w.words, page...)
	return nil
}

func (w *pageFile) flush() error {
	words := w.words
	if w.words = words[:0]; len(words) == 0 {
		return nil
	}
	return w.file.WritePages(w.first, words)
}

// A baseFile writes the hashes of a filter to the base of its NAME.hashes. Tasks put their
// hashes in the order of their numbers, and wait for their turn.
type baseFile struct {
	pages  pageFile
	base   *hashes.Base
	turns  []chan struct{} // turns[i] is closed once all tasks before task i have put their hashes
	header hashes.Header
	tail   hashes.TailPlace
}

// put adds the items of task i. ages may be empty if all have age 0.
func (b *baseFile) put(ctx context.Context, i int, sorted []uint64, ages []uint8) error {
	select {
	case <-b.turns[i]:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for j, h := range sorted {
		it := hashes.Item{Hash: h}
		if len(ages) > 0 {
			it.Age = int(ages[j])
		}
		if err := b.base.Add(it); err != nil {
			return err
		}
	}
	close(b.turns[i+1])
	return nil
}

// end writes the rest and the header. The system may then write the file to the disk while the
// build goes on.
func (b *baseFile) end() (err error) {
	if b.header, b.tail, err = b.base.End(); err != nil {
		return err
	}
	err = b.pages.flush()
	osfile.BeginSync(b.pages.file)
	return err
}
