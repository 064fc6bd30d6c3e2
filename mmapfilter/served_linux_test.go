package mmapfilter

import (
	"errors"
	"os"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// served reports whether the locks of a file tell readers that its writer has recovered it.
func served(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	is, err := osfile.Served(f)
	must(t, err)
	return is
}

// TestLockedIsNotServed covers R3: while a process has locked a dead writer's file, but has not begun to
// recover it, readers must not use the file. After a power loss, the file may lack keys that only the
// log has, although its epoch is still even.
func TestLockedIsNotServed(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	keys := hashes(8, 100)
	insertAll(t, f, keys)
	dead := abandon(t, f, path)
	files, err := osfile.OpenFiles(dead) // only takes the lock
	must(t, err)
	defer files.Close()
	r, err := OpenReadOnly(dead, nil)
	if err == nil {
		r.Close()
	}
	if !errors.Is(err, ErrNeedsRecovery) || served(t, dead) {
		t.Errorf("with the lock alone: %v, served: %t", err, served(t, dead))
	}
	if _, _, err := recovery.NewWriter(files); err != nil {
		t.Fatal(err)
	}
	if served(t, dead) {
		t.Error("served before Serve")
	}
	must(t, files.Serve())
	if r, err = OpenReadOnly(dead, nil); err != nil || !served(t, dead) {
		t.Fatalf("recovered: %v, served: %t", err, served(t, dead))
	}
	defer r.Close()
	mustContain(t, r, keys)
}
