package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The lock has three parts, the first bytes of the file. Who has the first one is
// the only one to write to the file. Who has the second as well has recovered it,
// and keeps it as readers need it. Who has the third is making the file.
const (
	lockWrite = iota
	lockServe
	lockTemporary
)

// lock takes the writer lock: an open-file-description lock, which ends with f and its mappings and not, as a POSIX lock does, when the process
// closes any other descriptor of the same file.
func lock(f *os.File) error {
	return lockPart(f, lockWrite)
}

// serve says to readers that the file is what they need.
func serve(f *os.File) error { return lockPart(f, lockServe) }

// lockDraft says that a temporary file is being made. It is no writer lock: whoever asks
// for it while the file gets its name is in nobody's way.
func lockDraft(f *os.File) error { return lockPart(f, lockTemporary) }

func lockPart(f *os.File, part int64) error {
	want := unix.Flock_t{Type: unix.F_WRLCK, Start: part, Len: 1}
	for {
		set := want
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &set)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return os.NewSyscallError("fcntl", err)
		}
		// The kernel gives a read lock to anyone who may read the file.
		found := want
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &found); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
		switch {
		case found.Type == unix.F_UNLCK:
			continue // it has just gone
		case found.Type == unix.F_WRLCK:
			return ErrLocked
		}
		return &ReadLockError{max(int(found.Pid), 0)} // it is -1 of a lock that no process has by itself
	}
}

// unlock gives the lock up. A mapping keeps the open file description, and with
// it the lock, when f is closed.
func unlock(f *os.File) error {
	return os.NewSyscallError("fcntl", unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))
}

// Locked reports whether another process, or another descriptor of this one, has
// the writer lock of a file.
func Locked(f *os.File) (bool, error) { return partLocked(f, lockWrite) }

// Served reports whether a writer has it that has recovered the file, if that
// was needed.
func Served(f *os.File) (bool, error) { return partLocked(f, lockServe) }

func partLocked(f *os.File, part int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: part, Len: 1} // in the way of the writer's alone
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	return l.Type != unix.F_UNLCK, nil
}
