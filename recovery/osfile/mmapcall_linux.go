//go:build !arm

package osfile

import "golang.org/x/sys/unix"

const sysMmap = unix.SYS_MMAP
