package recovery

import (
	"errors"
	"os"
	"path/filepath"
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

func TestResident(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1<<20 + 64
	if err := writeZeros(f, size); err != nil {
		t.Fatal(err)
	}
	m, err := Map(f, size, false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmap()
	if err := errors.Join(m.AdviseRandom(), m.AdviseWillNeed(), m.Populate(nil)); err != nil {
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
