package crashsim

import "github.com/mmapfilter/mmapfilter/layout"

// A Point is the state of the filter at the LSN at which an operation or a commit ends.
type Point struct {
	LSN     uint64
	UserSeq uint64
	// The number of operations after the user sequence is from OpMin to OpMax, since
	// those that change nothing have no record.
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
