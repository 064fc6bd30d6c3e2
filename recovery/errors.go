package recovery

import (
	"errors"
	"fmt"
)

// ErrLocked says that another process is writing to the file.
var ErrLocked = errors.New("filter file is locked by a writer")

// A ReadLockError is the ErrLocked of a file that nobody writes to: a process that may
// read the file keeps writers out with a read lock. No program that uses this package
// takes one.
type ReadLockError struct {
	PID int // 0 where the system does not say
}

func (e *ReadLockError) Error() string {
	by := "a process"
	if e.PID != 0 {
		by = fmt.Sprintf("process %d", e.PID)
	}
	return by + " holds a read lock on the file, which keeps writers out"
}

func (e *ReadLockError) Unwrap() error { return ErrLocked }

// ErrNoRoom says that a log could not be created for want of room.
var ErrNoRoom = errors.New("no room for a log")

// ErrChanging says that the file was written to while it was being read.
var ErrChanging = errors.New("filter file is being written to")

// ErrFailed says that an earlier write to the file failed.
var ErrFailed = errors.New("filter failed on an earlier error")

// ErrReplaced says that a writer found that its file has no name any more, or
// that another one has it.
var ErrReplaced = errors.New("filter file was removed or replaced under its writer")
