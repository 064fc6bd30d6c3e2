package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// The lock has three parts, one for each of the first three bytes of the file. The process
// that holds the first part may write to the file. It takes the second part once the file
// needs no recovery, so that readers may be served. A process that creates a file holds the
// third part.
const (
	lockWrite = iota
	lockServe
	lockTemporary
)

// lock takes the writer lock. It is an open-file-description lock, which ends when f is
// closed and its mappings are gone; a POSIX lock would end when the process closes any other
// descriptor of the file.
func lock(f *os.File) error {
	return lockPart(f, lockWrite)
}

// serve tells readers that the file needs no recovery.
func serve(f *os.File) error { return lockPart(f, lockServe) }

// lockDraft marks a temporary file whose process lives. It does not take the writer lock, because
// a process that asks for that lock while the file gets its name must not be refused.
func lockDraft(f *os.File) error { return lockPart(f, lockTemporary) }

func lockPart(f *os.File, part int64) error {
	want := unix.Flock_t{Type: unix.F_WRLCK, Start: part, Len: 1}
	for {
		set := want
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &set)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return os.NewSyscallError("fcntl", err)
		}
		// Any process that may read the file can take a read lock.
		found := want
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &found); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
		switch {
		case found.Type == unix.F_UNLCK:
			continue // just released
		case found.Type == unix.F_WRLCK:
			return recovery.ErrLocked
		}
		return &LockedError{PID: max(int(found.Pid), 0), ReadLock: true} // -1 for an open-file-description lock
	}
}

// unlock releases the lock, which would otherwise last as long as a mapping, even after f is
// closed.
func unlock(f *os.File) error {
	return os.NewSyscallError("fcntl", unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))
}

// Locked reports whether another open file description of f's file has the writer lock.
func Locked(f *os.File) (bool, error) { return partLocked(f, lockWrite) }

// Served reports whether a writer has the file open and has recovered it, if that was
// needed.
func Served(f *os.File) (bool, error) { return partLocked(f, lockServe) }

func partLocked(f *os.File, part int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: part, Len: 1} // conflicts only with write locks
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	return l.Type != unix.F_UNLCK, nil
}

// LockHolder returns the process that has the writer lock of the file at path, or 0 if it
// finds none. It finds only processes that this process may inspect. The lock belongs to an
// open file description, so the kernel does not name a process; LockHolder reads the locks
// of every open descriptor of every process.
func LockHolder(path string) (pid int) { return lockHolder(path, "WRITE") }

// ReadLockHolder returns the process whose read lock keeps writers out of the file at path,
// or 0 if it finds none.
func ReadLockHolder(path string) (pid int) { return lockHolder(path, "READ") }

func lockHolder(path, kind string) (pid int) {
	file, err := os.Stat(path)
	if err != nil {
		return 0
	}
	lock := regexp.MustCompile(`OFDLCK +ADVISORY +` + kind)
	infos, _ := filepath.Glob("/proc/[0-9]*/fdinfo/[0-9]*")
	for _, info := range infos {
		text, err := os.ReadFile(info)
		if err != nil || !lock.Match(text) {
			continue
		}
		fds, fd := filepath.Split(info)
		process := filepath.Dir(filepath.Clean(fds))
		open, err := os.Stat(filepath.Join(process, "fd", fd))
		if err == nil && os.SameFile(open, file) {
			pid, _ = strconv.Atoi(filepath.Base(process))
			return pid
		}
	}
	return 0
}
