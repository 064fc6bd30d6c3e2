package osfile

import (
	"errors"
	"os"
	"runtime"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// syncFilter makes a filter durable: msync for the mapping, then fsync for the file, since
// not every system does both in one call.
func syncFilter(m *Mapping, f *os.File) error {
	if err := fault.At("msync"); err != nil {
		return err
	}
	m.leavePageTable(0, int64(len(m.Data)))
	if err := m.Data.Flush(); err != nil {
		return os.NewSyscallError("msync", err)
	}
	return syncFile(f)
}

func syncFile(f *os.File) error {
	if err := fault.At("fsync"); err != nil {
		return err
	}
	return f.Sync()
}

// syncDir makes the names in a directory durable. dir is nil on systems that need no call.
func syncDir(dir *os.File) error {
	if err := fault.At("syncdir"); err != nil {
		return err
	}
	if dir == nil {
		return nil
	}
	return dir.Sync()
}

// SyncDir makes the names in a directory durable, whichever process has changed them.
func SyncDir(path string) error {
	dir, err := openDir(path)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(dir), closeDir(dir))
}

// openDir opens a directory so that the names in it can be made durable. It returns nil on Windows,
// which has no call to sync a directory, and makes a rename durable with its journal.
func openDir(path string) (*os.File, error) {
	if runtime.GOOS == "windows" {
		return nil, nil
	}
	return os.Open(path)
}

func closeDir(dir *os.File) error {
	if dir == nil { // on Windows
		return nil
	}
	return dir.Close()
}
