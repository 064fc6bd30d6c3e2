package osfile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
	"golang.org/x/sys/unix"
)

// allocate extends a new file to size and allocates all its blocks. A file with a hole
// works until the disk is full, when a store into the hole is a SIGBUS. So allocate checks
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

// callFallocate lets a test answer for the file system.
var callFallocate = unix.Fallocate

// fallocate allocates blocks and reports whether f then has all its blocks.
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
