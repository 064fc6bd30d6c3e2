package osfile

import (
	"errors"
	"fmt"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// An OpError says which operation has failed, and on which file. Errors of the system that name the file
// are an [*fs.PathError] and need no OpError.
type OpError struct {
	Op   string // such as "open"
	Path string
	Err  error
}

func (e *OpError) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }

func (e *OpError) Unwrap() error { return e.Err }

// ErrInUse is the error for a file that cannot be replaced, since a process has it open or mapped. Only
// Windows refuses this.
var ErrInUse = errors.New("a process has the file open or mapped, and this system cannot replace such a file")

// A LockedError says which process keeps others from writing to a file. It matches
// [recovery.ErrLocked].
type LockedError struct {
	// PID is the process that holds the lock, or 0 if it cannot be determined.
	PID int
	// ReadLock means that the process is not a writer: it holds a read lock on the
	// file, which keeps writers out. This package takes no read locks.
	ReadLock bool
}

func (e *LockedError) Error() string {
	switch {
	case e.ReadLock && e.PID == 0:
		return "a process holds a read lock on the file, which keeps writers out"
	case e.ReadLock:
		return fmt.Sprintf("process %d holds a read lock on the file, which keeps writers out", e.PID)
	case e.PID == 0:
		return recovery.ErrLocked.Error()
	case e.PID == os.Getpid():
		return "filter file is already open for writing in this process"
	}
	return fmt.Sprintf("%v (process %d)", recovery.ErrLocked, e.PID)
}

func (e *LockedError) Unwrap() error { return recovery.ErrLocked }
