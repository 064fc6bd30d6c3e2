package build

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Errors of Changes.
var (
	ErrChangesGone  = errors.New("the history from this position on is not kept any more: take a snapshot")
	ErrOtherDescent = errors.New("the position is not in the history of this filter: take a snapshot")
)

// A Changes finds how the multiset that a history means has changed from one position to another (K7).
//
// Changes spools the operations in between. All operations of a hash together turn its number of
// items, c, into max(c + a, b), where a and b depend on the operations. If b is not above a, c
// grows by a, whatever it was. If b is above a, as when a delete or an "at least one" comes first, the
// value of c at the first position matters. To find it, Changes counts the items of the hash in the base
// and in the operations before that position.
type Changes struct {
	since    layout.Position
	spool    *spool
	into     *collector
	doubtful []uint64 // bits of hashes whose number of items at the first position may matter
	doubts   bool     // a bit of doubtful is set
	forked   bool     // the history has another position with the number of since
	failed   error
	worker   worker
}

const (
	doubtBits  = 16      // bits of doubtful for each operation
	mostDoubts = 1 << 29 // most bits of doubtful, in 64 MiB
)

// NewChanges returns a Changes without operations. Call Close at the end.
func NewChanges(dir scratcher, since, to layout.Position) *Changes {
	n := to.Number - since.Number
	c := &Changes{since: since, spool: newSpool(dir, 1, KeptBudget, keptParts(n))}
	c.into = c.spool.collector()
	c.doubtful = make([]uint64, max(1, 1<<bits.Len64(min(n, mostDoubts/doubtBits)*doubtBits)/64/2))
	return c
}

// Close releases the memory and the files.
func (c *Changes) Close() { c.spool.Close() }

// AddRecent adds an operation that is not in a file yet.
func (c *Changes) AddRecent(e hashes.Entry) {
	if e.After.Number <= c.since.Number { // the operation is before the first position, and may matter
		c.put(e)
	}
	c.Add(e)
}

// Add adds an operation, if it is after the first position.
func (c *Changes) Add(e hashes.Entry) {
	if e.After.Number <= c.since.Number {
		c.forked = c.forked || e.After.Number == c.since.Number && e.After != c.since
		return
	}
	if e.Op != layout.Insert {
		word, bit := c.doubt(e.Hash)
		*word |= bit
		c.doubts = true
	}
	c.put(e)
}

// addBefore adds an operation before the first position, if the number of items of its hash may
// matter.
func (c *Changes) addBefore(e hashes.Entry) {
	if word, bit := c.doubt(e.Hash); *word&bit != 0 {
		c.put(e)
	}
}

func (c *Changes) doubt(hash uint64) (word *uint64, bit uint64) {
	return &c.doubtful[hash/64%uint64(len(c.doubtful))], 1 << (hash % 64)
}

func (c *Changes) put(e hashes.Entry) {
	if c.failed == nil {
		c.failed = c.into.addEntry(newEntry(0, 0, e))
	}
}

// Read adds the operations in files of the history, from the first position on, and the earlier
// operations that matter. The first position is in the first file, or after its end. If a file is
// damaged, the error matches recovery.ErrHashes.
func (c *Changes) Read(ctx context.Context, files []recovery.Kept) (err error) {
	defer func() {
		if !errors.Is(err, ErrChangesGone) {
			err = hashesError(err)
		}
	}()
	first := &files[0]
	if first.Header.At.Number > c.since.Number {
		return ErrChangesGone
	}
	c.forked = c.forked || first.Header.At.Number == c.since.Number && first.Header.At != c.since
	for i := range files {
		page := files[i].Header.FirstTail()
		if i == 0 {
			if page, err = first.PageOf(c.since.Number); err != nil {
				return gone(err, files)
			}
		}
		if err := files[i].Operations(ctx, page, c.Add); err != nil {
			return gone(err, files[i:])
		}
	}
	if c.forked {
		return fmt.Errorf("the filter has another history before operation %d: %w", c.since.Number, ErrOtherDescent)
	}
	if c.doubts && first.Header.At.Number < c.since.Number {
		until := *first
		if c.since.Number < first.To.Number {
			until.To = c.since
		}
		if err := until.Operations(ctx, first.Header.FirstTail(), c.addBefore); err != nil {
			return gone(err, files)
		}
	}
	if c.failed == nil {
		c.failed = c.into.flush()
	}
	return c.failed
}

// gone turns damage of the first of files into ErrChangesGone, unless it is the last file of the
// history. It returns other errors as they are.
func gone(err error, files []recovery.Kept) error {
	if errors.Is(err, layout.ErrCorrupt) && len(files) > 1 {
		return fmt.Errorf("%w: %w", ErrChangesGone, err)
	}
	return err
}

// Write writes the changes, after Read.
func (c *Changes) Write(ctx context.Context, first *recovery.Kept, to *changes.Writer) error {
	base := &baseReader{kept: first}
	for i := range c.spool.Parts() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b := &c.worker.merge
		b.entries = b.entries[:0]
		if err := c.worker.appendEntries(c.spool, i, true); err != nil {
			return err
		}
		for from := b.entries; len(from) > 0; {
			n := 1
			for n < len(from) && from[n].hash == from[0].hash {
				n++
			}
			times, err := c.times(from[:n], base)
			if err == nil {
				err = to.Add(changes.Change{Hash: from[0].hash, Times: times})
			}
			if err != nil {
				return err
			}
			from = from[n:]
		}
	}
	return nil
}

// times returns by how much the operations after the first position change the number of items of a
// hash. operations has all operations of the hash, in their order.
func (c *Changes) times(operations []entry, base *baseReader) (int64, error) {
	var before, after effect
	for _, e := range operations {
		if e.what>>entryNumber > c.since.Number {
			after.add(e.op())
		} else {
			before.add(e.op())
		}
	}
	if after.least <= after.more {
		return after.more, nil
	}
	n, err := base.count(operations[0].hash)
	if err != nil {
		return 0, err
	}
	count := before.on(int64(n))
	return after.on(count) - count, nil
}

// An effect is what operations do to a number of items: it becomes max(number + more, least).
type effect struct{ more, least int64 }

func (f effect) on(count int64) int64 { return max(count+f.more, f.least) }

// add adds an operation (K7).
func (f *effect) add(op layout.Op) {
	switch op {
	case layout.Insert:
		f.more++
		f.least++
	case layout.AtLeastOne:
		f.least = max(f.least, 1)
	case layout.Delete:
		f.more--
		f.least = max(f.least-1, 0)
	}
}
