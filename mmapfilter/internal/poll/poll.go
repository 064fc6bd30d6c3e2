// Package poll looks for another file at a path: at intervals, and at once when a lookup asks for it
// (R6).
package poll

import (
	"context"
	"time"
)

// Default is the interval of a Poller whose interval is 0.
const Default = 100 * time.Millisecond

// A Poller looks at a path until End is called.
type Poller struct {
	Life context.Context // ended by End; long work of a look, such as a verification, must end with it

	end   context.CancelCauseFunc
	wake  chan struct{} // of capacity 1
	ended chan struct{} // closed once no look is under way and no more will begin
}

// New returns a Poller that does not look yet.
func New() *Poller {
	p := &Poller{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	p.Life, p.end = context.WithCancelCause(context.Background())
	return p
}

// Wake returns the channel to which a lookup sends to make the Poller look at once.
func (p *Poller) Wake() chan<- struct{} { return p.wake }

// Start makes the Poller call look once per interval; 0 means Default, and a negative interval
// never. look reports whether the file in use has been superseded by a file that does not have the name
// yet. after is time.After, except in tests.
func (p *Poller) Start(interval time.Duration, after func(time.Duration) <-chan time.Time, look func() (awaits bool, err error)) {
	if interval == 0 {
		interval = Default
	}
	if interval < 0 {
		close(p.ended)
		return
	}
	go func() {
		defer close(p.ended)
		p.run(interval, after, look)
	}()
}

const (
	failedShare = 4
	soonest     = time.Millisecond // the first wait of run for a new file that does not have the name yet
)

// After a failed look, run waits at least three times as long as the look took, so that copying or
// locking a large file in vain takes at most 1 in failedShare of the time. While the file in use
// awaits the new one, run looks again soon, and then ever less often, down to once per interval.
func (p *Poller) run(interval time.Duration, after func(time.Duration) <-chan time.Time, look func() (awaits bool, err error)) {
	wait, soon := interval, soonest
	for {
		select {
		case <-p.Life.Done():
			return
		case <-p.wake:
		case <-after(wait):
		}
		begun := time.Now()
		switch awaits, err := look(); {
		case err != nil:
			wait = max(interval, (failedShare-1)*time.Since(begun))
		case awaits:
			wait = min(interval, soon)
			soon = min(interval, 2*soon)
		default:
			wait, soon = interval, soonest
		}
	}
}

// End ends Life with a cause. A look that is under way may go on.
func (p *Poller) End(cause error) { p.end(cause) }

// Wait waits, after Start and End, until no look is under way.
func (p *Poller) Wait() { <-p.ended }
