package osfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
	"golang.org/x/sys/unix"
)

// allocate extends a new file to size and allocates all its blocks. A file with a hole
// works until the disk is full; then a store into the hole is a SIGBUS. So allocate checks
// what the system really allocated.
func allocate(ctx context.Context, f *os.File, size int64) error {
	makeLargePages(ctx, f, size)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	allocated, err := fallocate(f, size)
	if errors.Is(err, errNoFallocate) || err == nil && !allocated { // success, but blocks are missing
		return writeZeros(f, size, zeroStep)
	}
	return err
}

// allocateAgain extends a file with content to size and allocates blocks for its holes.
func allocateAgain(f *os.File, size int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Size >= size && st.Blocks*512 >= size {
		return nil
	}
	// On a file system that compresses, a file without holes looks the same. It needs no
	// blocks, but allocating them does no harm.
	_, err := fallocate(f, size)
	if errors.Is(err, errNoFallocate) {
		return rewrite(f, size)
	}
	return err
}

var errNoFallocate = errors.New("no fallocate")

// callFallocate is replaced by tests.
var callFallocate = unix.Fallocate

// fallocate allocates blocks, and reports whether f has all its blocks afterwards.
func fallocate(f *os.File, size int64) (allocated bool, err error) {
	if err := fault.At("fallocate"); err != nil {
		return false, err
	}
	err = callFallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = callFallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return false, errNoFallocate
	}
	if err != nil {
		return false, os.NewSyscallError("fallocate", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	if st.Size < size {
		return false, fmt.Errorf("the file system allocated only %d of %d bytes", st.Size, size)
	}
	return st.Blocks*512 >= size, nil
}

// syncLog makes a log durable. The size and the blocks of the log have not changed since it
// was created, so only its data needs writing.
func syncLog(m *Mapping, f *os.File) error {
	if err := fault.At("fdatasync"); err != nil {
		return err
	}
	m.leavePageTable(0, int64(len(m.Data)))
	err := unix.Fdatasync(int(f.Fd()))
	for errors.Is(err, unix.EINTR) {
		err = unix.Fdatasync(int(f.Fd()))
	}
	return os.NewSyscallError("fdatasync", err)
}

// beginSync makes the system begin to write a file, and does not wait. A later Sync waits, and returns
// any error.
func beginSync(f *os.File) { unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) }

// SyncRange implements RangeSyncer. On Linux, msync makes a part of a file durable by itself,
// as fsync does for a whole file.
func (f *mappedFile) SyncRange(word, words uint64) error {
	if err := fault.At("msync"); err != nil {
		return err
	}
	page := int64(os.Getpagesize())
	from := int64(word) * 8 / page * page
	to := min((int64(word+words)*8+page-1)/page*page, int64(len(f.stores.Data)))
	f.stores.leavePageTable(from, to)
	return os.NewSyscallError("msync", f.stores.Data[from:to].Flush())
}

// renameNoReplace renames a file atomically. It fails with fs.ErrExist if the new name is
// taken.
func renameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not supported here
		return linkNew(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

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

// MemoryLimit returns how many bytes of memory this process may have, including its part of the
// page cache: the memory of the machine or, if lower, the limit of its control groups.
func MemoryLimit() int64 {
	limit := groupLimit()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		limit = min(limit, int64(info.Totalram)*int64(info.Unit))
	}
	return limit
}

// groupLimit is found once: a limit seldom changes, and opening a file must not take long.
var groupLimit = sync.OnceValue(func() int64 {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return limitOf(os.DirFS("/sys/fs/cgroup"), string(groups))
})

// limitOf returns the lowest memory limit of the control groups in groups, which is the text of
// /proc/self/cgroup, and of the groups above them. In a container, groups may have paths of the
// machine, although files begins at the group of the container.
func limitOf(files fs.FS, groups string) int64 {
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		root, name := ".", "memory.max" // version 2
		if strings.Contains(","+fields[1]+",", ",memory,") {
			root, name = "memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, err := fs.ReadFile(files, path.Join(root, group, name))
			if n, e := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && e == nil { // not "max"
				limit = min(limit, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}
