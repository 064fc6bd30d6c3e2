package mmapfilter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Errors a caller can act on, all matched with errors.Is. An error that wraps
// one of them says which file it is about and what was found.
var (
	// ErrFull: the key found no slot and no stash entry, or the rate is 1.5 times
	// the one asked for, and nothing has changed. Build a larger filter.
	ErrFull = errors.New("filter is full")
	// ErrLocked: another process is writing to the file. It is matched by
	// [LockedError], which says which.
	ErrLocked = recovery.ErrLocked
	// ErrReadOnly: the filter was opened for reading.
	ErrReadOnly = errors.New("filter is read-only")
	// ErrClosed: the filter has been closed.
	ErrClosed = errors.New("filter is closed")
	// ErrFailed: an earlier write failed; open the file again to recover.
	ErrFailed = recovery.ErrFailed
	// ErrNeedsRecovery: a writer died; the file has to be recovered before it
	// can be asked.
	ErrNeedsRecovery = errors.New("filter needs recovery")
	// ErrBusy: the file was changed while it was being verified.
	ErrBusy = recovery.ErrChanging
	// ErrCorrupt: the file is damaged, cut short, or no filter file. It is
	// matched by [CorruptError], which says where.
	ErrCorrupt = layout.ErrCorrupt
	// ErrVersion: the file was written by a newer version of this package.
	ErrVersion = layout.ErrVersion
)

// A CorruptError says which bytes of a file break which rule of the format.
type CorruptError = layout.CorruptError

// A VersionError says what in a file this version does not know.
type VersionError = layout.VersionError

// A LockedError says which process keeps others from writing to the file.
type LockedError struct {
	PID int // 0 where the system does not say, or not to this user
	// ReadLock: the process is no writer. It may read the file, and holds a read lock
	// on it, which no filter program takes.
	ReadLock bool
}

func (e *LockedError) Error() string {
	switch {
	case e.ReadLock:
		return (&recovery.ReadLockError{PID: e.PID}).Error()
	case e.PID == 0:
		return ErrLocked.Error()
	case e.PID == os.Getpid():
		return "filter file is already open for writing in this process"
	}
	return fmt.Sprintf("%v, process %d", ErrLocked, e.PID)
}

func (e *LockedError) Unwrap() error { return ErrLocked }

// An OptionError says which field of [Options] or [OpenOptions] cannot be
// used, and why.
type OptionError struct {
	Field  string
	Reason string
}

func (e *OptionError) Error() string { return fmt.Sprintf("option %s: %s", e.Field, e.Reason) }

func optionError(field, format string, args ...any) error {
	return &OptionError{field, fmt.Sprintf(format, args...)}
}

// about says what was being done with a file, unless the error already does, and
// by whom it is locked.
func about(op, path string, err error) error {
	if errors.Is(err, ErrLocked) {
		held := &LockedError{}
		if read := new(recovery.ReadLockError); errors.As(err, &read) {
			held.PID, held.ReadLock = read.PID, true
			if held.PID == 0 {
				held.PID = recovery.ReadLockHolder(path)
			}
		} else {
			held.PID = recovery.LockHolder(path)
		}
		if errors.Is(err, ErrNeedsRecovery) {
			err = fmt.Errorf("%w, and cannot be recovered: %w", ErrNeedsRecovery, held)
		} else {
			err = held
		}
	}
	if e := new(fs.PathError); errors.As(err, &e) && e.Path == path {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}
