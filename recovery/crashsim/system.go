package crashsim

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A System is the filter under test.
type System struct {
	// Open takes over a volume, and recovers it if a writer died.
	Open func(recovery.Volume) (Writer, *recovery.Recovery, error)
	// Full is the error of an insert that finds no room.
	Full error
	// Verify checks a sealed file against its checksums.
	Verify func(file []uint64) error
	// Replace puts the file of next, which has the items of w, in the place of the file of w.
	// Meanwhile it calls during, which does operations in w; Replace does these in next, too.
	Replace func(w, next Writer, during func()) error
}

// fill opens a new filter and gives it items.
func (sys *System) fill(b recovery.Volume, hashes []uint64) (Writer, error) {
	w, _, err := sys.Open(b)
	for _, h := range hashes {
		if err != nil {
			return nil, err
		}
		err = w.Insert(h)
	}
	if err != nil {
		return nil, err
	}
	return w, w.Checkpoint()
}

// A Writer is an open filter.
type Writer interface {
	Operations
	Commits
	Progress

	Seal() error
	Clean() error // closes the filter cleanly
}

// Operations change single items.
type Operations interface {
	Insert(hash uint64) error
	InsertUnique(hash uint64) (added bool, err error)
	Delete(hash uint64) (bool, error)
	// Idle reports whether an insert or a delete could run now, beside the current Sync
	// or Checkpoint.
	Idle() bool
}

// Commits make operations durable.
type Commits interface {
	Sync(setSeq bool, seq uint64) error
	Checkpoint() error
	// BeginCheckpoint and EndCheckpoint are the two halves of Checkpoint. Operations and
	// syncs may come between them.
	BeginCheckpoint() error
	EndCheckpoint() error
}

// Progress is what an open filter has done.
type Progress interface {
	// Newest sets words to the newest values of the words of the stash or of the region from
	// first on, including operations that are not durable.
	Newest(first uint64, words []uint64)
	LSN() uint64
	Length() uint64
	History() layout.Kept
	Durable() (userSeq, operations, lsn uint64)
	// Err returns an error once the writer has failed.
	Err() error
}
