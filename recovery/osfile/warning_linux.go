package osfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Warning says what the file system of f cannot promise to a writer, or returns "" if no
// such limit is known.
func Warning(f *os.File) string {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return ""
	}
	const zfs, bcachefs = 0x2FC12FC1, 0xCA451A4E // x/sys has no names for them
	switch int64(st.Type) {
	case unix.BTRFS_SUPER_MAGIC, zfs, bcachefs:
		return "copy-on-write file system: a store needs new blocks, so a full disk can end the process (SIGBUS)"
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC:
		return "network file system: processes on different machines do not share a mapping"
	}
	return ""
}
