package osfile

import (
	"errors"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// syncFilter writes back the mapping, then the file, since not every system does both in
// one call.
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

func closeDir(dir *os.File) error {
	if dir == nil { // on Windows
		return nil
	}
	return dir.Close()
}
