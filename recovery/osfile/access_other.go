//go:build !unix

package osfile

import (
	"io/fs"
	"os"
)

// keepAccess gives f the permission bits of another file.
func keepAccess(f *os.File, as fs.FileInfo) (lost string, err error) {
	return "", f.Chmod(as.Mode().Perm())
}

// nameless reports false: this system does not say how many names a file has.
func nameless(*os.File) bool { return false }
