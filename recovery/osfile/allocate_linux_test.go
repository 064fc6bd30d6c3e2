package osfile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// allocated returns the number of bytes in the blocks of a file.
func allocated(t *testing.T, f *os.File) int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &st))
	return st.Blocks * 512
}

// TestAllocateWhateverIsSaid checks that a file has all its blocks, filled with zeros, when allocate
// returns. It tries file systems that allocate, that have no call for this, and that report success but
// allocate nothing or only a part. On a full disk, a store to a missing block would be a fault.
func TestAllocateWhateverIsSaid(t *testing.T) {
	const size = 1 << 20
	defer func(old func(int, uint32, int64, int64) error) { callFallocate = old }(callFallocate)
	system := callFallocate
	interrupts := 0
	for name, c := range map[string]struct {
		call func(fd int, mode uint32, off, n int64) error
		err  error // error of allocate; nil for a file with all its blocks
	}{
		"allocates":              {call: system},
		"has no such call":       {call: func(int, uint32, int64, int64) error { return unix.EOPNOTSUPP }},
		"does not know the call": {call: func(int, uint32, int64, int64) error { return unix.ENOSYS }},
		"sets the size alone":    {call: func(fd int, _ uint32, off, n int64) error { return unix.Ftruncate(fd, off+n) }},
		"allocates half": {call: func(fd int, mode uint32, off, n int64) error {
			if err := system(fd, mode, off, n/2); err != nil {
				return err
			}
			return unix.Ftruncate(fd, off+n)
		}},
		"is interrupted": {call: func(fd int, mode uint32, off, n int64) error {
			if interrupts++; interrupts < 3 {
				return unix.EINTR
			}
			return system(fd, mode, off, n)
		}},
		"is full": {call: func(int, uint32, int64, int64) error { return unix.ENOSPC }, err: unix.ENOSPC},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "a"))
		must(t, err)
		defer f.Close()
		must(t, writeZeros(f, size, zeroStep))
		if n := allocated(t, f); n < size {
			t.Skipf("NOT TESTED: this file system has %d bytes of blocks for %d of zeros", n, size)
		}
		must(t, f.Truncate(0))
		callFallocate = c.call
		if err := allocate(context.Background(), f, size); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		} else if err != nil {
			continue
		}
		content, err := os.ReadFile(f.Name())
		if err != nil || !bytes.Equal(content, make([]byte, size)) {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
		if n := allocated(t, f); n < size {
			t.Errorf("%s: %d bytes of blocks for %d", name, n, size)
		}
	}
	callFallocate = func(int, uint32, int64, int64) error { return nil }
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	must(t, err)
	defer f.Close()
	if err := allocate(context.Background(), f, size); err == nil {
		t.Error("the call did not set the size, and there is no error")
	}
}

// TestAllocateAgainKeepsContent checks that a file with a hole gets all its blocks and keeps its
// content, whether or not the system has a call that fills holes.
func TestAllocateAgainKeepsContent(t *testing.T) {
	const size, hole = 1 << 20, 1 << 19
	defer func(old func(int, uint32, int64, int64) error) { callFallocate = old }(callFallocate)
	for name, call := range map[string]func(int, uint32, int64, int64) error{
		"fallocate": callFallocate,
		"none":      func(int, uint32, int64, int64) error { return unix.EOPNOTSUPP },
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "a"))
		must(t, err)
		defer f.Close()
		text := bytes.Repeat([]byte("content "), 1000)
		_, err = f.WriteAt(text, hole)
		if err == nil {
			err = f.Truncate(size - 100)
		}
		must(t, err)
		if allocated(t, f) >= size-100 {
			t.Skip("NOT TESTED: this file system has no holes in files")
		}
		callFallocate = call
		must(t, allocateAgain(f, size))
		want := make([]byte, size)
		copy(want[hole:], text)
		content, err := os.ReadFile(f.Name())
		if err != nil || !bytes.Equal(content, want) {
			t.Errorf("%s: %d bytes, or wrong content, %v", name, len(content), err)
		}
		if n := allocated(t, f); n < size {
			t.Errorf("%s: %d bytes of blocks for %d", name, n, size)
		}
	}
}
