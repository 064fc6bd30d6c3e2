package writer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

var (
	// ErrNotReplica is returned for changes if the filter is not a replica. It matches
	// build.ErrOtherDescent.
	ErrNotReplica error = &alsoError{
		errors.New("it is not a replica: only a snapshot of a filter that keeps its hashes takes changes, and only until the snapshot has operations of its own"),
		[]error{build.ErrOtherDescent},
	}
	// ErrChangesGap is returned for changes that do not begin at the position of the filter.
	ErrChangesGap = errors.New("the changes do not begin at the position of the filter")
	// ErrOtherClasses is returned for changes by class if the filter has other classes.
	ErrOtherClasses = errors.New("the changes are for a filter with other classes")
	// ErrApplying is returned by an operation on a replica that has only part of a set of changes.
	ErrApplying = errors.New("the filter has only part of a set of changes")
)

// Apply applies the changes from r to a replica, each exactly once (K9), unless the replica has them
// already. If an earlier Apply was cut off, Apply first finishes its set of changes.
func (w *Writer) Apply(ctx context.Context, r io.Reader) error {
	w.applying.Lock()
	defer w.applying.Unlock()
	if !w.follows.Load() {
		return ErrNotReplica
	}
	if err := w.finishSet(ctx); err != nil {
		return err
	}
	head := new(bytes.Buffer)
	in, err := changes.NewReader(io.TeeReader(r, head))
	if err != nil {
		return unreadable(err)
	}
	at, _, _ := w.followed()
	if err := w.takes(&in.Header, at); err != nil || in.Header.To.Number <= at.Number { // the replica has them already
		return err
	}
	set, err := w.spool(ctx, io.MultiReader(head, r))
	if err == nil {
		err = w.setMark(layout.Mark{At: at, Set: set})
	}
	if err != nil {
		return err
	}
	err = w.finishSet(ctx)
	if full := new(FullError); errors.As(err, &full) {
		full.Begun = true
	}
	return err
}

// Resume finishes the set of changes of an Apply that was cut off, perhaps in an earlier writer.
func (w *Writer) Resume(ctx context.Context) error {
	w.applying.Lock()
	defer w.applying.Unlock()
	return w.finishSet(ctx)
}

// Follows reports whether the file is a replica, with or without hashes, that has had
// no operation of its own.
func (w *Writer) Follows() bool { return w.follows.Load() }

// Depart durably turns a replica into an ordinary filter, which follows no other history. Call Depart
// before the first operation that is not part of an Apply.
func (w *Writer) Depart() error {
	w.applying.Lock()
	defer w.applying.Unlock()
	if !w.follows.Load() {
		return nil
	}
	if _, set, _ := w.followed(); set != 0 {
		return ErrApplying
	}
	w.mu.Lock()
	at := w.protocol.Departure()
	w.mu.Unlock()
	err := w.setMark(layout.Mark{At: at, Set: layout.Departed})
	if err == nil {
		w.follows.Store(false)
	}
	return err
}

// followed returns the position of a replica, the set of changes that it is applying, and how many
// changes of the set are done.
func (w *Writer) followed() (at layout.Position, set, done uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, at = w.protocol.Followed()
	return at, w.protocol.History().Set, w.protocol.Operations()
}

// setMark commits with a layout.Mark.
func (w *Writer) setMark(m layout.Mark) error {
	return w.commitWith(boundary{mark: &m})
}

// takes returns an error unless the changes begin at the position of the filter, or end at or before
// this position: then the filter has them already.
func (w *Writer) takes(h *changes.Header, at layout.Position) error {
	w.mu.Lock()
	descent, _ := w.protocol.Followed()
	w.mu.Unlock()
	switch {
	case h.Descent != descent,
		h.From.Number == at.Number && h.From != at, h.To.Number == at.Number && h.To != at:
		return errOtherWay
	case h.To.Number <= at.Number:
		return nil
	case h.From != at:
		return fmt.Errorf("%w: they lead from operation %d to operation %d, but it is at operation %d", ErrChangesGap, h.From.Number, h.To.Number, at.Number)
	case !h.Classes.IsZero() && (w.protocol.KeepsHashes() || h.Classes != changes.ClassesOf(w.protocol.Geometry())):
		return ErrOtherClasses
	}
	return nil
}

// spool reads all changes and makes them durable. It returns the check of this set of changes. It does
// not change the filter file.
func (w *Writer) spool(ctx context.Context, r io.Reader) (set uint64, err error) {
	s, err := w.protocol.NewSet()
	if err != nil {
		return 0, err
	}
	in, err := changes.NewReader(io.TeeReader(r, s))
	more, fewer, all := uint64(0), uint64(0), uint64(0)
	for err == nil {
		var c changes.Change
		if c, err = in.Next(); err != nil {
			break
		}
		items := uint64(max(c.Times, -c.Times))
		if left := in.Header.To.Number - in.Header.From.Number - all; items > left {
			err = fmt.Errorf("%w: they change more items than there were operations", changes.ErrDamaged)
			break // otherwise the inserts of one key might take years
		}
		all += items
		if c.Times > 0 {
			more++ // only one item, since one entry of the stash may count all copies of the hash
		} else {
			fewer += items
		}
		err = context.Cause(ctx)
	}
	if err == io.EOF {
		err = w.hasRoom(more, fewer)
	}
	if err == nil {
		set, err = s.End()
	}
	if err != nil {
		return 0, errors.Join(unreadable(err), s.Discard())
	}
	return set, nil
}

// unreadable returns an error of a changes.Reader as one that also matches an error of the public API.
func unreadable(err error) error {
	switch {
	case errors.Is(err, changes.ErrCutOff):
		return &alsoError{err, []error{layout.ErrCorrupt, io.ErrUnexpectedEOF}}
	case errors.Is(err, changes.ErrDamaged):
		return &alsoError{err, []error{layout.ErrCorrupt}}
	}
	return err
}

// An alsoError matches other errors too.
type alsoError struct {
	error
	matches []error
}

func (e *alsoError) Unwrap() []error { return append(e.matches, e.error) }

// hasRoom returns an error if the changes delete more items than the filter has, or if after these
// deletes a filter that does not grow has no room for the inserted items. fewer is the number of items
// that the changes delete, and more is a lower bound on the items that they insert.
func (w *Writer) hasRoom(more, fewer uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	length := w.protocol.Length()
	keys := place.KeysOf(length, w.mu.stashed.items, w.mu.stashed.entries)
	switch {
	case fewer > length:
		return errNotThere
	case w.protocol.Superblock().Grows():
		return nil
	case more > fewer && keys+more-fewer > min(w.Limit, w.protocol.Geometry().Slots()+layout.StashEntries):
		return errNoRoom
	}
	return nil
}

var (
	errOtherWay = &alsoError{
		errors.New("the changes are from another filter, or from another history of this filter: take a new snapshot"),
		[]error{build.ErrOtherDescent},
	}
	errNoRoom   = fmt.Errorf("%w for the changes: rebuild the replica if it keeps hashes, or take a new snapshot", ErrFull)
	errNotThere = &layout.CorruptError{Region: layout.RegionBuckets, Rule: "K9", What: "the changes delete an item that is not there, so the filter lacks items that it should have at its position: take a new snapshot"}
)

// finishSet finishes the set of changes that the superblock names, if there is one.
// REQUIRES: w.applying.
func (w *Writer) finishSet(ctx context.Context) error {
	_, check, done := w.followed()
	if check == 0 || !w.follows.Load() {
		return nil
	}
	set, err := w.protocol.OpenSet(check)
	if err != nil {
		return err
	}
	defer set.Close()
	h, err := w.doChanges(ctx, set, true, &done) // deletes first, so that inserts find room
	if err == nil {
		set.Rewind()
		h, err = w.doChanges(ctx, set, false, &done)
	}
	if err == nil {
		err = w.setMark(layout.Mark{At: h.To, UserSeq: h.UserSeq, Operations: h.Operations})
	}
	if err == nil {
		w.protocol.RemoveSet() // if this fails, the set stays, which does no harm: no commit names it, and the next set replaces it
	}
	return err
}

// doChanges does the deletes of a set of changes if fewer is true, and otherwise the inserts. It leaves
// out the first *skip of these operations, which are already done, and subtracts their number from
// *skip. It returns the header of the set.
func (w *Writer) doChanges(ctx context.Context, set io.Reader, fewer bool, skip *uint64) (h changes.Header, err error) {
	in, err := changes.NewReader(set)
	if err != nil {
		return h, err
	}
	var inserts []uint64
	for {
		c, err := in.Next()
		if err == io.EOF {
			return in.Header, w.insertSome(inserts)
		}
		if err != nil {
			return h, err
		}
		if (c.Times < 0) != fewer {
			continue
		}
		n := uint64(max(c.Times, -c.Times))
		skipped := min(n, *skip)
		*skip -= skipped
		for range n - skipped {
			if err := context.Cause(ctx); err != nil {
				return h, err
			}
			if fewer {
				err = w.takeAway(c.Hash)
			} else if inserts = append(inserts, c.Hash); len(inserts) == Batch {
				err, inserts = w.insertSome(inserts), inserts[:0]
			}
			if err != nil {
				return h, err
			}
		}
	}
}

// takeAway deletes an item of a hash. If the filter has no such item, takeAway returns errNotThere.
func (w *Writer) takeAway(hash uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(); err != nil {
		return err
	}
	if !w.remove(hash) {
		return errNotThere // without counting an operation
	}
	w.finish(layout.Delete, -1, hash)
	return nil
}

// insertSome inserts an item for each hash.
func (w *Writer) insertSome(hashes []uint64) error {
	done := 0
	err := w.DoAll(layout.Insert, hashes, false, &done, nil)
	if errors.Is(err, ErrFull) && !w.protocol.KeepsHashes() {
		return errNoRoom
	}
	return err
}
