package mmapfilter

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// expiry is the state of a filter whose keys leave by themselves ([Options.ExpireAfter]). A goroutine,
// called the background here, makes sweeps: at the end of each step of the window, a sweep deletes the
// items that were inserted in the step that has just left the window (see build.Window).
type expiry struct {
	ended   chan struct{}                      // closed when the background has ended; nil if there is none
	cancel  atomic.Pointer[context.CancelFunc] // ends the sweep in the background; nil if there is none
	waiting atomic.Int32                       // calls for which the background must wait
	deleted atomic.Uint64                      // items that have expired, since the filter was opened
	failed  atomic.Pointer[error]              // why the last sweep failed; or nil
	behind  time.Time                          // when the clock was first seen to be behind; guarded by growth
}

// A sweep in the background spreads its deletes over 1/spreadShare of a step, but over no more than
// longestSpread, because all that time it keeps a map of the keys that other calls delete.
const (
	spreadShare   = 4
	longestSpread = 10 * time.Minute
	// longestLook is the longest time between two looks at the clock, since somebody may set the clock.
	longestLook = time.Minute
	// After a sweep that failed or gave way to a call, the background waits for 1/againShare of a step.
	againShare = 8
)

// errLater is returned by a sweep that gives way to a call.
var errLater = errors.New("a rebuild comes first")

// take is Lock for a call that the background gives way to: a sweep that is under way ends, and begins
// again later. So an insert that waits for room does not wait for a sweep.
func (g *growth) take() {
	g.expiry.waiting.Add(1)
	if cancel := g.expiry.cancel.Load(); cancel != nil {
		(*cancel)()
	}
	g.Lock()
	g.expiry.waiting.Add(-1)
}

// Expire deletes the keys whose time is over ([Options.ExpireAfter]), and returns how many items it
// has deleted. While a filter is open for writing, it does this by itself, in the background: after
// Open, and then every ExpireAfter/32. Close does it once more. Call Expire to wait for the deletes, for
// example after Open, before a lookup that must not find a key whose time is over.
//
// Ages are measured by the clock of the machine. If the clock was ahead and is set back, keys that were
// inserted while it was ahead have times in the future, and would leave too late. [Filter.Rebuild] gives
// these keys the time of the rebuild. The filter rebuilds itself for this purpose once the clock has
// been behind for ExpireAfter/64. A growth before that keeps the times, since the clock may be behind
// only for a moment, as when a machine starts.
//
// If [Filter.InsertUnique] has left a key out since the last rebuild, the deletes wait for a rebuild,
// which follows at once. The deletes in the background give way to a rebuild or a growth. Other
// operations go on meanwhile, as during [Filter.ExpireBefore].
//
// [Filter.DurableOps] does not count these deletes. Without ExpireAfter, Expire does nothing. The errors
// are those of [Filter.ExpireBefore] and [Filter.Rebuild].
func (f *Filter) Expire(ctx context.Context) (n uint64, err error) {
	o, err := f.writable()
	if err == nil && o.superblock.ExpireAfter() != 0 {
		o, err = f.changeable()
	}
	if err != nil {
		return 0, err
	}
	ctx, cancel := f.growth.call(ctx)
	defer cancel()
	if n, err = f.expireDue(ctx, 0); err != nil {
		return n, about("expire", o.path, err)
	}
	return n, nil
}

// windowOf returns the window of a file, which says which items leave now.
func windowOf(sb *layout.Superblock) build.Window {
	return build.Window{Length: sb.ExpireAfter(), Now: osfile.Now()}
}

// changeExpiry changes the ExpireAfter of a filter that has just been opened, unless to is 0.
func changeExpiry(w *writer.Writer, files *osfile.Files, to time.Duration) (err error) {
	if to == 0 || uint64(max(to, 0)) == w.Superblock().ExpireAfter() {
		return nil
	}
	fault := files.Catch(func() { err = w.SetExpireAfter(uint64(max(to, 0))) }, w.Fail)
	return cmp.Or(fault, err)
}

// commitInterval returns the CommitInterval of a filter. The age of a key is counted from the commit of
// its insert, so this commit must come soon.
func commitInterval(asked, expireAfter time.Duration) time.Duration {
	const share = 100
	interval := cmp.Or(asked, defaultCommitInterval)
	if interval > 0 && expireAfter > 0 {
		interval = min(interval, expireAfter/share)
	}
	return interval
}

// beginExpiry begins to expire keys in the background, if the file has an ExpireAfter.
func (f *Filter) beginExpiry(o *openFile) {
	if o.work == nil || o.superblock.ExpireAfter() == 0 {
		return
	}
	f.growth.expiry.ended = make(chan struct{})
	go f.expireInTime()
}

// finishExpiry waits for the end of the background, and makes the last sweep. Without this sweep, no
// key would leave a filter that is only open for short times.
func (f *Filter) finishExpiry() {
	if ended := f.growth.expiry.ended; ended != nil {
		<-ended
		f.expired(f.expireDue(f.growth.life, 0))
	}
}

// expireInTime expires keys as long as the filter is open.
func (f *Filter) expireInTime() {
	defer close(f.growth.expiry.ended)
	for wait := time.Duration(0); ; {
		select {
		case <-f.growth.calls.Done():
			return
		case <-time.After(wait):
		}
		o := f.open.Load()
		if o == nil {
			return
		}
		w := windowOf(o.superblock)
		step := time.Duration(w.Step())
		if f.expired(f.expireDue(f.growth.calls, min(step/spreadShare, longestSpread))) {
			wait = min(time.Duration(min(w.Cut()+w.Step()+w.Length-w.Now, uint64(longestLook))), step)
		} else {
			wait = min(step/againShare, longestLook)
		}
	}
}

// expired takes the results of expireDue: it notes the error, and reports whether all that was
// due is done.
func (f *Filter) expired(_ uint64, err error) bool {
	e := &f.growth.expiry
	switch o := f.open.Load(); {
	case err == nil:
		e.failed.Store(nil)
	case errors.Is(err, errLater), errors.Is(err, context.Canceled), errors.Is(err, ErrClosed):
	case e.failed.Swap(&err) == nil && o != nil && o.work.OnError != nil:
		o.work.OnError(about("expire", o.path, err))
	}
	return err == nil
}

// expireDue deletes the items whose time is over, unless an earlier call has deleted them. If spread is
// not 0, expireDue spreads the deletes over this time, and gives way to other calls.
func (f *Filter) expireDue(ctx context.Context, spread time.Duration) (n uint64, err error) {
	o, cut, n, err := f.sweep(ctx, spread)
	if o == nil || err != nil {
		return n, err
	}
	if err := f.carryOut(ctx, o); err != nil {
		return n, err
	}
	if o, err = f.live(); err == nil { // after a rebuild, the file is another one
		err = o.work.Catch(func() error { return o.work.Writer.SetExpiredBefore(cut) })
	}
	if err == writer.ErrMoved { // the deletes are done; only the note that they are done is lost
		err = nil
	}
	return n, err
}

// sweep is expireDue without the rebuild that may be due afterwards. o is nil if nothing was due.
func (f *Filter) sweep(ctx context.Context, spread time.Duration) (o *openFile, cut, n uint64, err error) {
	if o, _, err := f.due(); o == nil || err != nil {
		return nil, 0, 0, err
	}
	if spread == 0 {
		f.growth.take()
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		f.growth.expiry.cancel.Store(&cancel)
		defer f.growth.expiry.cancel.Store(nil)
		if f.growth.expiry.waiting.Load() > 0 { // a call that waits may have come before cancel was stored
			return nil, 0, 0, errLater
		}
		f.growth.Lock()
	}
	defer f.growth.Unlock()
	if o, cut, err = f.due(); o == nil || err != nil { // another call may have done it
		return nil, 0, 0, err
	}
	n, err = f.expire(ctx, o, cut, spread, false)
	if o.work.Writer.State().History.Waiting > 0 || f.growth.expiry.clockIsBack(o) {
		o.work.Writer.Shorten()
	}
	return o, cut, n, err
}

// due returns the open file and cut: the items that were inserted before cut must leave now. due returns
// no file if these items have left already, or if the file is a replica with hashes, since its deletes
// come with the changes.
func (f *Filter) due() (o *openFile, cut uint64, err error) {
	if o, err = f.live(); err != nil {
		return nil, 0, err
	}
	w := windowOf(o.superblock)
	if cut = w.Cut(); w.Length == 0 || o.work.Writer.Follows() || o.work.Writer.Protocol().ExpiredBefore() == cut {
		return nil, 0, nil
	}
	return o, cut, nil
}

// clockIsBack reports whether the clock was set back for good. The clock is behind if it is so far
// behind the last commit that a rebuild would make the times of items earlier. clockIsBack reports true
// only once the clock has been behind for half a step, since a clock that is behind for a moment, as
// when a machine starts, must not make keys older. REQUIRES: growth.
func (e *expiry) clockIsBack(o *openFile) bool {
	w := windowOf(o.superblock)
	if !w.Ahead(o.work.Writer.Superblock().LastTime()) {
		e.behind = time.Time{}
		return false
	}
	if e.behind.IsZero() {
		e.behind = time.Now()
	}
	return time.Since(e.behind) >= time.Duration(w.Step()/2)
}

// carryOut rebuilds the filter after a sweep, if a rebuild is due, since the deletes of the sweep may
// be waiting for it (K7).
func (f *Filter) carryOut(ctx context.Context, o *openFile) error {
	if !o.work.Writer.HistoryIsLong() {
		return nil
	}
	for f.open.Load() == o { // until a rebuild begun after the sweep replaces the file
		ends, _ := f.resize(o, false)
		if ends == nil {
			break
		}
		select {
		case <-ends:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if f.open.Load() != o {
		return nil
	}
	f.growth.auto.Lock()
	defer f.growth.auto.Unlock()
	return f.growth.auto.failed
}
