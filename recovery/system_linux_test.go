package recovery

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenDoesNotWaitForAPipe: opening a pipe for reading waits for a writer.
func TestOpenDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenFile(path); err == nil {
		t.Error("a pipe was opened")
	}
	if _, err := NewDraft(path); err == nil {
		t.Error("a pipe was to be replaced")
	}
}

// TestNoPermission: as root, which may do anything, it drops that right for
// this thread.
func TestNoPermission(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := errors.Join(os.WriteFile(path, nil, 0), os.Chmod(dir, 0o555), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer unix.Setfsuid(0)
	}
	if _, _, err := OpenFile(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("to read: %v", err)
	}
	if _, err := NewDraft(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("to replace: %v", err)
	}
	if _, err := NewDraft(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("to create: %v", err)
	}
}

func TestResident(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1<<20 + 64
	if err := writeZeros(f, size, zeroStep); err != nil {
		t.Fatal(err)
	}
	m, err := Map(f, size, false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmap()
	if err := errors.Join(m.AdviseRandom(), m.AdviseWillNeed(), m.Populate(f, nil)); err != nil {
		t.Fatal(err)
	}
	if n, err := m.Resident(); err != nil || n != size {
		t.Errorf("%d of %d bytes, %v", n, size, err)
	}
	m.Release()
	if m.Data[size-1] != 0 {
		t.Error("not zero after it was released")
	}
}
