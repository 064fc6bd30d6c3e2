//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDirectory takes the lock of a directory, which the system releases when the process ends.
func lockDirectory(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another server has %s: %w", path, err)
	}
	return f, nil
}

// descriptors returns how many files the process may have open.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(uint64(limit.Cur), 1<<20))
}
