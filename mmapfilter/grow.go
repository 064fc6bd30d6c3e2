package mmapfilter

import (
	"fmt"
	"time"
)

// After a growth has failed, another one is tried when the number of items has changed by 1 in
// retryShare of the capacity: until then it would most likely fail again. If an insert has no room, it
// is tried once retryAfter has passed: a try may write a whole file, and without a pause each such
// insert would begin one.
const (
	retryShare = 64
	retryAfter = time.Second
)

// inserted has the filter grow if an insert of the caller has made that due.
func (f *Filter) inserted(o *openFile) {
	if o.grows.Inserted(o.work.Writer) {
		f.resize(o, false)
	}
}

// deleted has the filter shrink if a delete of the caller has made that due.
func (f *Filter) deleted(o *openFile) {
	if o.grows.Deleted(o.work.Writer) {
		f.resize(o, false)
	}
}

// resize rebuilds the filter in the background, unless that has failed recently and is not needed
// now. It returns a channel that is closed when the rebuild has ended; or nil if it begins none, or if
// another file has taken the place of o.
func (f *Filter) resize(o *openFile, now bool) <-chan struct{} {
	a := &f.growth.auto
	a.Lock()
	defer a.Unlock()
	if a.done != nil {
		return a.done
	}
	items := o.work.Writer.Len()
	apart := max(items, a.failedAt) - min(items, a.failedAt)
	again := apart >= max(o.superblock.Capacity()/retryShare, 1) || now && time.Since(a.failedTime) > retryAfter
	if f.open.Load() != o || a.failed != nil && !again {
		return nil
	}
	done := make(chan struct{})
	a.done = done
	go func() {
		var err error
		for again := true; again && err == nil; { // until it has the right size
			err = f.rebuild(f.growth.life, func() *RebuildOptions {
				opts := f.size(f.open.Load())
				again = opts != nil
				return opts
			})
		}
		a.Lock()
		defer a.Unlock()
		a.failed, a.failedAt, a.failedTime, a.done = err, items, time.Now(), nil
		close(done)
	}()
	return done
}

// size returns the options of a growth, or nil if none is needed any more.
func (f *Filter) size(o *openFile) *RebuildOptions {
	if o == nil {
		return nil
	}
	capacity, due := o.grows.Next(o.work.Writer)
	if !due {
		return nil
	}
	return &RebuildOptions{Capacity: capacity}
}

// waitForRoom waits for a growth after an insert has found no room in o. It returns nil if the insert
// is to be tried again, and otherwise its error.
func (f *Filter) waitForRoom(o *openFile, full error) error {
	if !o.grows.Grows() {
		return full
	}
	if done := f.resize(o, true); done != nil {
		<-done
	}
	if f.open.Load() != o {
		return nil
	}
	if o.work.Writer.SkipFull() != nil { // it counts, now that it is not tried again
		return nil // but a rebuild or Close has come before
	}
	f.growth.auto.Lock()
	defer f.growth.auto.Unlock()
	if err := f.growth.auto.failed; err != nil {
		return fmt.Errorf("%w, and cannot grow (K5): %w", full, err)
	}
	return full
}
