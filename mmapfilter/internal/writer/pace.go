package writer

import (
	"math"
	"time"
)

// A pace spreads waiting over operations. While a checkpoint writes the region, operations fill the
// other half of the log; and until the background begins a checkpoint, they fill the last part of a
// half. While a commit goes on, they fill the next segment. If the room runs out faster than the work
// is done, each operation waits a little, so that none has to wait for all that is left to do. Let
// needed be the share of a half, or of a segment, that must be free for the work that is left, and
// missing the share of needed that is not free. An operation owes
//
//	paceBase · (2^(missing/paceStep) - 1)
//
// up to paceLongest. That is nothing as long as the disk keeps up.
//
// extra is what operations owe a rebuild, which does them again in another file. next is when the next
// operation may come, if the history gets long meanwhile (see Writer.Rebuilding).
type pace struct {
	owed, extra time.Duration
	next        time.Time
}

const (
	paceBase  = time.Microsecond       // about the time of an operation
	paceStep  = 1. / 16                // each more that is missing doubles the wait
	paceSyncs = 1. / 8                 // needed for the syncs after that of the region
	paceApply = 1. / 2                 // needed of a segment while a commit goes on, whose progress is unknown
	paceLeast = 500 * time.Microsecond // a shorter sleep takes as long

	// paceLongest bounds one sleep, and so the wait of one operation, to ten times paceLeast. Where
	// nothing is free, the formula would give 2^16 times paceBase.
	paceLongest = 5 * time.Millisecond

	// Between two operations while the history is long; and how long one waits at most, whatever many
	// goroutines and batches have put before it.
	paceLong     = time.Millisecond
	paceLongMost = 50 * time.Millisecond
)

// missing returns the share of needed that is not free when used of size are in use. It is below 0 if
// there is more than that.
func missing(size, used int64, needed float64) float64 {
	return 1 - float64(size-used)/float64(size)/needed
}

// owe adds what a number of operations owe where a share of what is needed is missing.
func (p *pace) owe(operations int, share float64) {
	if share <= 0 {
		p.owed = 0
		return
	}
	each := float64(paceBase) * (math.Exp2(share/paceStep) - 1)
	p.owed += time.Duration(min(float64(operations)*each, float64(paceLongest)))
}

// later has n operations be later, one after the other.
func (p *pace) later(n int) {
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(n) * paceLong)
	if most := now.Add(paceLongMost); p.next.After(most) {
		p.next = most
	}
}

// due reports whether enough is owed for a sleep.
func (p *pace) due() bool { return p.owed+p.extra >= paceLeast || !p.next.IsZero() }

// pay returns how long to sleep for what is owed, and sets that to 0.
func (p *pace) pay() time.Duration {
	owed := min(p.owed+p.extra, paceLongest)
	p.owed, p.extra = 0, 0
	if !p.next.IsZero() {
		owed = max(owed, min(time.Until(p.next), paceLongMost))
	}
	return owed
}
