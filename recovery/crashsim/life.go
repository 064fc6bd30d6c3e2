package crashsim

import (
	"fmt"
	"runtime/debug"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A life is one process on a volume. It opens the filter and continues with the trace (client.go);
// the oracles look on (oracles.go).
type life struct {
	x     *worker
	v     *Volume
	st    State // state in which it found the volume
	depth int   // number of crashes before it

	w       Writer // nil while the filter is being opened
	seen    Writer // the writer of the file that the last point is about
	op      int    // current operation
	end     int    // operation to stop before
	opened  bool   // the filter has been opened at least once
	content        // of the file
	meant   Counts // see Point
	must    Counts
	floor   uint64
	torn    bool
	dead    bool   // a sync has failed
	unnamed bool   // the file that the writer has moved to may not survive a power loss
	synced  Counts // keys that the current sync makes durable, without those that are deleted meanwhile

	// after is the content of the new file that is to take the place of this file, with the operations
	// since the new file was filled. It is nil if there is no new file.
	after *content

	at      func(word uint64) uint64 // words
	readers bool                     // look keys up after each store

	points []Point // states of the filter after each operation

	forks       []fork      // forks that have not been recovered yet
	recoverFork func(*fork) // recovers a fork
}

// A content is what a file has, in the terms of Point.
type content struct {
	counts Counts
	kept   layout.Kept
}

// A Point is the state of the filter at the LSN at which an operation or a commit ends.
type Point struct {
	LSN     uint64
	UserSeq uint64
	// The number of operations after the user sequence is from OpMin to OpMax, since
	// operations that change nothing have no record.
	OpMin, OpMax uint64
	Length       uint64
	Counts       Counts      // items
	Meant        Counts      // keys that the history means (K7); without a history the same as Counts
	Kept         layout.Kept // the history, or zero without one
	Next         int         // next operation of the trace
	Image        []uint64    // stash and region
}

// Counts says how many times each key of a trace is in the filter.
type Counts [maxKeys]uint8

// maxKeys bounds the keys that traces use.
const maxKeys = 20

// A State is what is known about a volume that no process has open.
type State struct {
	points []Point // states that it may be in, in order of LSN
	floor  uint64  // LSN up to which it is durable
	must   Counts  // keys that were synced and not deleted since
	// torn is set after a power loss, until the epoch tells readers of the recovery.
	torn bool
}

func (l *life) u() *Universe { return l.x.trace.Universe }

// fail ends the trace with a violation.
func (l *life) fail(oracle, format string, args ...any) {
	when := "while it is opened: "
	if l.opened {
		when = fmt.Sprintf("at operation %d: ", l.op)
	}
	panic(&Violation{Oracle: oracle, What: when + fmt.Sprintf(format, args...), Chain: l.x.chainText(), Trace: l.x.trace})
}

// call runs a call of the library. A panic in it is a violation.
func (l *life) call(f func() error) error {
	defer func() {
		if r := recover(); r != nil {
			if v, ok := r.(*Violation); ok {
				panic(v)
			}
			l.fail("O6", "panic: %v\n%s", r, debug.Stack())
		}
	}()
	err := f()
	if slot := l.v.patched - 1; slot >= 0 {
		l.fail("O7", "a superblock was stored over a half-written one, with its checksum, in slot %d of the disk", slot)
	}
	return err
}

// words returns a word of the cache, as a reader in another process sees it.
func (l *life) words(word uint64) uint64 { return l.v.filter.cache.words[word] }

// known returns the states in which a crash now may leave the filter.
func (l *life) known() []Point {
	if !l.opened {
		return l.st.points
	}
	return l.points
}

// state returns what must hold after a crash now.
func (l *life) state() State {
	st := State{points: l.known(), floor: l.floor, must: l.must, torn: l.torn}
	if l.w != nil && !l.unnamed {
		_, _, lsn := l.w.Durable()
		st.floor = max(st.floor, lsn)
	}
	return st
}
