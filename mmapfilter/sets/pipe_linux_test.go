package sets

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipe: a pipe is no set, and nobody waits for what may be written to it.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.set")
	must(t, unix.Mkfifo(path, 0o600))
	if set, err := IsSet(path); set || err != nil {
		t.Errorf("%t, %v", set, err)
	}
	if _, err := Open(path, nil); err == nil {
		t.Error("a pipe has been opened")
	}
}
