package osfile

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A hashFile is a HashFile of the operating system. It is not mapped, since it is written once
// and seldom read. So it takes no memory of the process.
type hashFile struct{ *os.File }

func (f hashFile) Pages() (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()) / hashes.PageBytes, nil
}

func (f hashFile) ReadPages(first uint64, words []uint64) error {
	n, err := f.ReadAt(recovery.Bytes(words), int64(first)*hashes.PageBytes)
	if errors.Is(err, io.EOF) {
		return hashes.Corrupt(first+uint64(n)/hashes.PageBytes, "the file ends before this page")
	}
	return err
}

func (f hashFile) WritePages(first uint64, words []uint64) error {
	if err := fault.At("write"); err != nil {
		return err
	}
	_, err := f.WriteAt(recovery.Bytes(words), int64(first)*hashes.PageBytes)
	return err
}

func (f hashFile) Truncate(pages uint64) error {
	if err := fault.At("truncate"); err != nil {
		return err
	}
	return f.File.Truncate(int64(pages) * hashes.PageBytes)
}

func (f hashFile) Sync() error { return syncFile(f.File) }

// BeginSync makes the system begin to write the file, and returns at once. The caller can do other work
// before it calls Sync, which waits for the end.
func BeginSync(f recovery.HashFile) { beginSync(f.(hashFile).File) }

func openHashes(path string, flags int) (recovery.HashFile, error) {
	info, err := os.Stat(path) // opening a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular("open", path)
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	return hashFile{f}, nil
}

func (v *Files) setPath() string { return v.path + recovery.SetSuffix }

// CreateSet creates an empty set, with the owner, group and permissions of the filter. If something
// else has the name of the set, the error is a *ForeignError.
func (v *Files) CreateSet() (recovery.HashFile, error) {
	if err := notASet(v.setPath()); err != nil {
		return nil, err
	}
	if err := removeIfThere(v.setPath()); err != nil {
		return nil, err
	}
	info, err := v.filter.file.Stat()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(v.setPath(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	keepAccess(f, info) // another process that may write to the filter must be able to go on with the set
	return hashFile{f}, nil
}

// OpenSet opens the set.
func (v *Files) OpenSet() (recovery.HashFile, error) { return openHashes(v.setPath(), os.O_RDONLY) }

// RemoveSet removes the set. A file of that name that is not a set stays.
func (v *Files) RemoveSet() error { return removeSet(v.path) }

// removeSet removes the set of the filter at a path.
func removeSet(path string) error {
	if path += recovery.SetSuffix; !there(path) || notASet(path) != nil {
		return nil
	}
	return removeIfThere(path)
}

// notASet returns a *ForeignError if there is a file at a path and it is not a set of changes. A file
// of zeros passes, since a process that died while creating a set may have left it.
func notASet(path string) error {
	head, err := readStart(path, int64(len(recovery.SetMagic)))
	if err == nil && len(bytes.Trim(head, "\x00")) > 0 && string(head) != recovery.SetMagic {
		return occupied(path, "which is not a set of changes")
	}
	return err
}

// OpenHashesOf opens, for reading, the file of hashes that belongs to the filter at path with the
// given superblock. The error is ErrHashes.
func OpenHashesOf(path string, sb *layout.Superblock) (k recovery.Kept, err error) {
	if err := recovery.CheckKept(sb); err != nil {
		return k, err
	}
	if path, err = realPath(path); err != nil {
		return k, err
	}
	k, _, err = recovery.FindHashes(sb, func(name recovery.HashesName) (recovery.HashFile, error) {
		return openHashes(path+name.String(), os.O_RDONLY)
	})
	return k, err
}
