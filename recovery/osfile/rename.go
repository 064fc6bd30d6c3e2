package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// rename renames a file, and replaces a file that has the new name. On Windows it fails with
// ErrInUse if the system cannot replace that file.
func rename(from, to string) error {
	if err := fault.At("rename"); err != nil {
		return err
	}
	err := os.Rename(from, to)
	for tries := 0; inUse(err, to); tries++ {
		if tries == renameTries {
			return fmt.Errorf("%w: %v", ErrInUse, err) // not fs.ErrPermission
		}
		runtime.GC() // a closed filter of this process stays mapped until it is collected
		time.Sleep(10 * time.Millisecond)
		err = os.Rename(from, to)
	}
	return err
}

// renameTries limits how often rename tries again on Windows, where a process that looks for stale
// files, or for viruses, may have a file open for a moment.
const renameTries = 20

// inUse reports whether err, from a rename on Windows, says that a process has one of the files open or
// mapped.
func inUse(err error, to string) bool {
	if runtime.GOOS != "windows" || err == nil {
		return false
	}
	const accessDenied, sharingViolation, userMapped = syscall.Errno(5), syscall.Errno(32), syscall.Errno(1224)
	if errors.Is(err, sharingViolation) || errors.Is(err, userMapped) {
		return true
	}
	info, statErr := os.Stat(to)
	return errors.Is(err, accessDenied) && statErr == nil && info.Mode().IsRegular() && info.Mode()&0o200 != 0
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
