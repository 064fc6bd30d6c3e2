package osfile

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// LockHolder returns the process that has the writer lock of the file at path, or 0 if
// it finds none. It finds only processes that this one may inspect. The lock belongs to
// an open file description, so the kernel does not name a process; LockHolder reads the
// locks of every open descriptor of every process.
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
