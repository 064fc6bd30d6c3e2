package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// After a growth has failed, the filter tries again when the number of items has changed by 1/retryShare
// of the capacity, or after a pause. The pause is retryAfter times as long as the failed try took, but
// at least retryLeast. Since a try may write a whole file, not every operation may begin one.
const (
	retryShare = 64
	retryAfter = 8
	retryLeast = time.Second
)

// inserted makes the filter grow if an insert by the caller has made a growth due.
func (f *Filter) inserted(o *openFile) {
	if o.grows.Inserted(o.work.Writer) {
		f.resize(o, false)
	}
}

// deleted makes the filter shrink if a delete by the caller has made that due.
func (f *Filter) deleted(o *openFile) {
	if o.grows.Deleted(o.work.Writer) {
		f.resize(o, false)
	}
}

// resize rebuilds the filter in the background, unless a rebuild has failed recently. full says that an
// insert has found no room in o. ends is closed when the rebuild has ended; it is nil if there is no
// rebuild. makesRoom says that the rebuild makes room for the insert. If o is no longer the file in use,
// ends is nil and makesRoom is true.
func (f *Filter) resize(o *openFile, full bool) (ends <-chan struct{}, makesRoom bool) {
	a := &f.growth.auto
	a.Lock()
	defer a.Unlock()
	if a.done != nil {
		return a.done, a.full == o
	}
	items := o.work.Writer.Len()
	apart := max(items, a.failedAt) - min(items, a.failedAt)
	again := apart >= max(o.superblock.Capacity()/retryShare, 1) || time.Since(a.failedTime) > max(retryAfter*a.took, retryLeast)
	failed := a.failed != nil && !(full && a.failed == errCopies) // a filter that could not shrink may still grow
	if f.open.Load() != o {
		return nil, true
	}
	if failed && !again {
		return nil, false
	}
	done := make(chan struct{})
	a.done, a.full, a.finish = done, nil, o.grows.Deleted(o.work.Writer)
	if full {
		a.full = o
	}
	go func() {
		begun := time.Now()
		err := f.resizeNow(full)
		if err != nil && !errors.Is(err, ErrClosed) && o.work.OnError != nil {
			o.work.OnError(about("grow", o.path, err))
		}
		a.Lock()
		defer a.Unlock()
		a.failed, a.failedAt, a.failedTime, a.took = err, items, time.Now(), time.Since(begun)
		a.done, a.full = nil, nil
		close(done)
	}()
	return done, full
}

// resizeNow rebuilds the filter until it has the right size. While the filter is being closed,
// resizeNow makes only one rebuild, since operations that come during a rebuild could make another
// one due each time. If the items have no room in the new file, because many of them are copies,
// resizeNow tries a larger file.
func (f *Filter) resizeNow(full bool) (err error) {
	const mostTries = 4
	shrinks := !full // after a growth the filter must not shrink again at once
	for due, larger := true, 0; due; {
		err = f.rebuild(f.growth.life, func() *RebuildOptions {
			o := f.open.Load()
			if o == nil {
				due = false
				return nil
			}
			w, grows := o.work.Writer, o.grows
			due = full || grows.Inserted(w) || shrinks && grows.Deleted(w)
			if !due {
				return nil
			}
			full := full && w.State().History.Waiting == 0 // if deletes wait, a rebuild makes room without a growth
			patient := !f.growth.expiry.clockIsBack(o)
			return &RebuildOptions{patient: patient, capacityFor: func(items uint64) uint64 { return grows.Capacity(w, items, full) << larger }}
		})
		switch {
		case err == nil && larger > 0 && shrinks && f.small():
			return errCopies
		case err == nil && f.closed.Load():
			return nil
		case err == nil:
			full, shrinks, larger = false, false, 0
		case errors.Is(err, ErrFull) && larger < mostTries:
			larger++
		default:
			return err
		}
	}
	return nil
}

// small reports whether the filter has so few items that it should be made smaller.
func (f *Filter) small() bool {
	o := f.open.Load()
	return o != nil && o.grows.Small(o.work.Writer)
}

// errCopies says why a filter cannot be made smaller. Another try would fail in the same way.
var errCopies = errors.New("the copies of its keys have no room in a smaller file")

// A CopiesError says that there is no room for one more copy of a key, and that a larger file would
// hardly have more room. Either the key has as many copies as its lines can hold, and most entries
// of the stash belong to such keys; or the filter has already grown to 64 times its items. A
// CopiesError matches [ErrFull].
type CopiesError struct {
	Copies uint64 // items of the key, and of keys that share lines and fingerprint with it (C7)
}

func (e *CopiesError) Error() string {
	return fmt.Sprintf("%v: the key has %d copies, and growing would make hardly any room for another one", ErrFull, e.Copies)
}

func (e *CopiesError) Unwrap() error { return ErrFull }

// waitForRoom waits for a growth after an insert of a hash has found no room in o. It returns nil if the
// caller must try the insert again, and otherwise the error of the insert.
func (f *Filter) waitForRoom(o *openFile, hash uint64) error {
	err := f.makeRoom(o, hash)
	if err != nil && o.work.Writer.CountFull() != nil { // nobody tries the insert again, so DurableOps counts it
		return nil // a rebuild or Close has come first: try again
	}
	return err
}

// makeRoom is waitForRoom without counting the insert.
func (f *Filter) makeRoom(o *openFile, hash uint64) error {
	grows := o.grows.Grows()
	copies := grows && (o.work.Writer.Fills(hash) || o.grows.Wide(o.work.Writer))
	var failed error
	if grows && !copies {
		failed = f.awaitRoom(o)
	}
	if failed == writer.ErrMoved || f.open.Load() != o || f.closed.Load() {
		return nil
	}
	switch {
	case copies:
		return &CopiesError{o.work.Writer.Count(hash)}
	case failed != nil:
		return fmt.Errorf("%w, and cannot grow (K5): %w", ErrFull, failed)
	}
	return ErrFull
}

// awaitRoom waits for the end of a growth. If a rebuild for another reason is under way, awaitRoom
// first waits for the end of this rebuild. If a Rebuild from Keys is under way, the growth waits for
// it. But the Rebuild may wait for the insert, since its keys come from the caller. So the insert waits
// only until the context of the Rebuild ends. The error says why there will be no room. It is
// writer.ErrMoved if another file has been in use. Then the insert must be tried again, even if that
// file could not get the name and o is in use again.
func (f *Filter) awaitRoom(o *openFile) error {
	a := &f.growth.auto
	for makesRoom := false; !makesRoom; {
		under, again := a.comesFirst()
		if f.open.Load() != o {
			return writer.ErrMoved
		}
		var ends <-chan struct{}
		if ends, makesRoom = f.resize(o, true); ends == nil && makesRoom {
			return writer.ErrMoved
		}
		if ends == nil {
			break
		}
		select {
		case <-ends:
		case <-again:
			makesRoom = false
		case <-f.growth.calls.Done(): // Close may wait for a Rebuild that waits for this insert
			return nil
		case <-under.Done():
			if now, _ := a.comesFirst(); now == under {
				return context.Cause(under)
			}
			makesRoom = false // it has ended
		}
	}
	a.Lock()
	defer a.Unlock()
	return a.failed
}

// If a rebuild that makes the filter smaller or its history shorter is under way or due,
// finishResize completes it. Without finishResize, a filter that is only open for short times would
// never complete such a rebuild.
func (f *Filter) finishResize(o *openFile) {
	a := &f.growth.auto
	a.Lock()
	var done <-chan struct{} = a.done
	finish := a.finish || a.done == nil && o.work.Writer.HistoryIsLong()
	a.Unlock()
	if finish && done == nil {
		done, _ = f.resize(o, false)
	}
	if finish && done != nil {
		<-done
	}
}

// noRoomFor returns the hash of an insert that has found no room.
func noRoomFor(err error) (hash uint64, ok bool) {
	full := new(writer.FullError)
	ok = errors.As(err, &full)
	return full.Hash, ok
}
