package recovery

import (
	"errors"
	"fmt"
)

// ErrLocked is returned when a process has the writer lock of the file.
var ErrLocked = errors.New("filter file is locked by a writer")

// ErrNoRoom is returned when there is no room for a log: the disk is full, a quota is
// exceeded, or the file would be too large.
var ErrNoRoom = errors.New("no room for a log")

// ErrChanging is returned when a file is written to while it is being read.
var ErrChanging = errors.New("filter file is being written to")

// ErrFailed is returned once a write to a file has failed.
var ErrFailed = errors.New("a write to the filter failed")

// ErrReplaced is returned to a writer whose file has been removed or replaced.
var ErrReplaced = errors.New("filter file was removed or replaced while open for writing")

// A ForeignError says that a new filter would destroy a file that does not belong to the filter it
// replaces. That file has the name of the filter, of its log or of its hashes. Nothing has changed.
type ForeignError struct {
	Path string // of the file that would be destroyed
	Is   string // what the file is, as far as this is known
}

func (e *ForeignError) Error() string { return fmt.Sprintf("would destroy %s, %s", e.Path, e.Is) }
