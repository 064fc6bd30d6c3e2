//go:build unix

package osfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepAccess gives f the permission bits of another file, and its owner and group as
// far as this process may: only root may give a file away, but a process may give it any
// group that the process belongs to. If f keeps a different group, that group gets no more
// rights than everyone. lost says what f does not get.
func keepAccess(f *os.File, as fs.FileInfo) (lost string, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	mode := as.Mode().Perm()
	is, ok := info.Sys().(*syscall.Stat_t)
	want, ok2 := as.Sys().(*syscall.Stat_t)
	if ok && ok2 && (is.Uid != want.Uid || is.Gid != want.Gid) && f.Chown(int(want.Uid), int(want.Gid)) != nil {
		if is.Gid != want.Gid && f.Chown(-1, int(want.Gid)) != nil {
			lost = fmt.Sprintf("the new file has group %d: this process may not give it the group of the old one, %d", is.Gid, want.Gid)
			mode = mode&^0o070 | mode&0o007<<3&mode
		}
		if is.Uid != want.Uid {
			if lost != "" {
				lost += "\n"
			}
			lost += fmt.Sprintf("the new file has owner %d: this process may not give it the owner of the old one, %d", is.Uid, want.Uid)
		}
	}
	return lost, f.Chmod(mode) // after chown, and without the umask
}

// nameless reports whether f has lost its last name.
func nameless(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && is.Nlink == 0
}
