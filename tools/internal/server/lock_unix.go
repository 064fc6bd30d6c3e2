//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package server

import (
	"fmt"
	"os"
	"syscall"
)

// lockDirectory opens a directory with a lock, which the system releases when the process ends.
func lockDirectory(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		dir.Close()
		return nil, fmt.Errorf("another server has %s: %w", path, err)
	}
	return dir, nil
}

// descriptors returns how many files the process may have open.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(uint64(limit.Cur), 1<<20))
}
