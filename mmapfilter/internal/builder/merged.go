package builder

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Kept is a file of hashes, as far as it counts.
type Kept struct {
	File    recovery.HashFile
	Counted layout.Hashes
}

// A Merged has the items of one or several files of hashes. It is the source of a build, and
// lists the items for others.
type Merged struct {
	inputs []input
	tails  *spool // of words: see word
	n      int    // partitions, each of one or several of the spool
	items  uint64
	ages   []hashes.Age
}

// An input is one of the files.
type input struct {
	Kept
	number   int
	header   hashes.Header
	ageOf    []int     // of each age of the base
	surveyed tailPlace // as far as the tail was surveyed

	items, sum atomic.Uint64 // of the base, as far as it was loaded
}

// A tailPlace is a place in a tail.
type tailPlace struct {
	hashes.Place
	operations uint64 // before it
}
