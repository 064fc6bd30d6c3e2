package writer

import (
	"math"
	"time"
)

// A pace spreads waiting over operations. While a checkpoint writes the region, operations fill the
// other half of the log; and until the background begins a checkpoint, they fill the last part of a
// half. While a commit goes on, they fill the next segment. If the room runs out faster than the
// checkpoint or the commit proceeds, each operation waits a little, so that no operation has to wait
// until all of the checkpoint or commit is done. Let needed be the share of a half, or of a segment,
// that must be free until then, and missing the share of needed that is not free. An operation adds
//
//	paceBase · (2^(missing/paceStep) - 1)
//
// to owed, the wait that is due, up to paceLongest. As long as the disk keeps up, no operation waits.
//
// extra is the wait for operations that a rebuild must repeat in another file. next is when the next
// operation may come, if the history gets long during a rebuild (see Writer.Rebuilding).
type pace struct {
	owed, extra time.Duration
	next        time.Time
}

const (
	paceBase  = time.Microsecond       // about the time of an operation
	paceStep  = 1. / 16                // each further step of missing doubles the wait
	paceSyncs = 1. / 8                 // share of a half needed for the syncs that follow the sync of the region
	paceApply = 1. / 2                 // share of a segment that must be free during a commit, whose progress is unknown
	paceLeast = 500 * time.Microsecond // a shorter sleep takes as long as this

	// paceLongest bounds one sleep, and so the wait of one operation, to ten times paceLeast. If nothing
	// is free, the formula would give 2^16 times paceBase.
	paceLongest = 5 * time.Millisecond

	// paceLong is the time between two operations while the history is long. paceLongMost
	// bounds the wait of one operation, however many goroutines and batches came before it.
	paceLong     = time.Millisecond
	paceLongMost = 50 * time.Millisecond
)

// missing returns the share of needed that is not free when used of size are in use. It is below 0
// if more than needed is free.
func missing(size, used int64, needed float64) float64 {
	return 1 - float64(size-used)/float64(size)/needed
}

// owe adds the waits of a number of operations. share is the result of missing.
func (p *pace) owe(operations int, share float64) {
	if share <= 0 {
		p.owed = 0
		return
	}
	each := float64(paceBase) * (math.Exp2(share/paceStep) - 1)
	p.owed += time.Duration(min(float64(operations)*each, float64(paceLongest)))
}

// later delays the next operation by paceLong for each of n operations.
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

// due reports whether the wait is long enough for a sleep.
func (p *pace) due() bool { return p.owed+p.extra >= paceLeast || !p.next.IsZero() }

// pay returns how long to sleep now, and sets owed to 0.
func (p *pace) pay() time.Duration {
	owed := min(p.owed+p.extra, paceLongest)
	p.owed, p.extra = 0, 0
	if !p.next.IsZero() {
		owed = max(owed, min(time.Until(p.next), paceLongMost))
	}
	return owed
}
