package osfile

import "golang.org/x/sys/unix"

const sysMmap = unix.SYS_MMAP2 // its offset, which is 0 here, counts pages
