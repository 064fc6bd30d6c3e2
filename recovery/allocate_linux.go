package recovery

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives f its size and all its blocks. A file of the right size with
// a hole in it would do until the disk is full: a store into the hole is then
// a SIGBUS. So what the system says it allocated is checked.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, size)
	}
	if err != nil {
		return os.NewSyscallError("fallocate", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Size != size {
		return fmt.Errorf("the file system gave %d of %d bytes", st.Size, size)
	}
	if st.Blocks*512 < size { // it said yes and did not do it
		return writeZeros(f, size)
	}
	return nil
}
