package build

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Merged has the items of one or several files of hashes: those that their histories mean (K7). It is
// the source of a build, and lists the items for others.
type Merged struct {
	// Held, if not nil, is called by Each for each hash of which a file has had an item since its base:
	// with the number of items that the base and the operations lead to, and of the deletes that took
	// one of another hash.
	Held func(hash uint64, items int64, stray uint64)

	inputs  []input
	tails   *spool // two words for each operation: its hash, and what entry has
	n       int    // partitions, each of one or several of the spool
	entries uint64 // of the bases and the tails
	inserts bool   // the tails have nothing else
	ages    []hashes.Age
}

// An input is one of the files.
type input struct {
	recovery.Kept
	number   int
	header   hashes.Header
	ageOf    []int     // of each age of the base
	surveyed tailPlace // as far as the tail was surveyed

	items, sum atomic.Uint64 // of the base, as far as it was loaded
}

// An InputError is an error of one of several files of hashes. Its text is that of Err.
type InputError struct {
	Number int // of the file, from 0
	Err    error
}

func (e *InputError) Error() string { return e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// fault makes an error one of the input.
func (in *input) fault(err error) error {
	if err == nil {
		return nil
	}
	return &InputError{in.number, err}
}

// A tailPlace is a place in a tail.
type tailPlace struct {
	hashes.Place
	at layout.Position
}
