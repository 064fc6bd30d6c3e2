package osfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// writeZeros extends f to size by writing every byte, step bytes at a time. It is the way
// to allocate on systems that have no call for it.
func writeZeros(f *os.File, size, step int64) error {
	w := io.NewOffsetWriter(f, 0)
	zeros := make([]byte, min(size, step))
	for left := size; left > 0; left -= int64(len(zeros)) {
		if err := fault.At("write"); err != nil {
			return err
		}
		if _, err := w.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
			return err
		}
	}
	return nil
}

// zeroStep is how much is written in one call where the size of cache pages does not
// matter.
const zeroStep = 1 << 20

// rewrite fills the holes of f, on file systems that have no call for this: it writes every
// byte again, and zero bytes from the end of f up to size.
func rewrite(f *os.File, size int64) error {
	buf := make([]byte, min(size, zeroStep))
	for off := int64(0); off < size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-off)]
		clear(buf)
		if _, err := f.ReadAt(buf, off); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := fault.At("write"); err != nil {
			return err
		}
		if _, err := f.WriteAt(buf, off); err != nil {
			return err
		}
	}
	return nil
}

// ofRoom turns an error of allocating a log into ErrNoRoom if there was no room. (Errors of
// a sync are never ErrNoRoom.)
func ofRoom(err error) error {
	for _, room := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, room) {
			return fmt.Errorf("%w: %w", recovery.ErrNoRoom, err)
		}
	}
	return err
}
