package osfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

func rename(from, to string) error {
	if err := fault.At("rename"); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// renameNew is rename, but fails if the new name is taken.
func renameNew(from, to string) error {
	if err := fault.At("rename"); err != nil {
		return err
	}
	return renameNoReplace(from, to)
}

// linkNew is renameNew by a hard link, which is atomic too.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// link gives a file another name.
func link(from, to string) error {
	if err := fault.At("link"); err != nil {
		return err
	}
	return os.Link(from, to)
}

func remove(path string) error {
	if err := fault.At("remove"); err != nil {
		return err
	}
	return os.Remove(path)
}

// removeIfThere removes a file. It returns nil if there is none, or if the name is too long
// for a file.
func removeIfThere(path string) error {
	if err := remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return err
	}
	return nil
}

// there reports whether there is a file at a path. It returns false if the system does not
// say.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
