package recovery

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// LockHolder finds the process that has the writer lock of a file; 0 where none that
// this one may look into has it. The lock belongs to an open file description and not to
// a process, so the kernel names no process with it: what tells is the list of locks of
// each open descriptor of each process.
func LockHolder(path string) (pid int) { return lockHolder(path, "WRITE") }

// ReadLockHolder finds the process that keeps writers of a file out with a read lock.
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
