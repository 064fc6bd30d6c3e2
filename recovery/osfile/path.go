package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// realPath follows symbolic links and makes the path absolute, since the log is beside the
// file itself, not beside a link, and the working directory may change.
func realPath(path string) (string, error) {
	if path == "" { // otherwise it would be the working directory
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// newPath is realPath for a file that may not exist, in a directory that does. If the target of a
// symbolic link does not exist, newPath returns where the target would be.
func newPath(path string) (string, error) {
	for range maxLinks {
		if real, err := realPath(path); !errors.Is(err, fs.ErrNotExist) {
			return real, err
		}
		// Where ".." leads depends on the links before it, so no path is cleaned here.
		dir, base := filepath.Split(path)
		if dir == "" && base != "" {
			dir = "."
		}
		real, err := realPath(dir)
		if err != nil {
			return "", err
		}
		target, err := os.Readlink(filepath.Join(real, base))
		if err != nil { // not a link: the file itself is missing
			return filepath.Join(real, base), nil
		}
		if path = target; !filepath.IsAbs(target) {
			path = real + string(filepath.Separator) + target
		}
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// maxLinks is how many links to a missing file are followed, as on Linux.
const maxLinks = 40

// sameFile reports whether f is the file at path.
func sameFile(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(is, named)
}

// notRegular returns the error for a path that is a directory, a pipe or a device.
func notRegular(op, path string) error {
	return &fs.PathError{Op: op, Path: path, Err: errors.New("not a regular file")}
}
