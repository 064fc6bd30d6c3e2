package recovery_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// TestGrownLogIsLetGo checks that a log leaves no descriptor and no mapping behind when a larger log
// replaces it, so that its blocks on the disk become free.
func TestGrownLogIsLetGo(t *testing.T) {
	f, _ := openGolden(t)
	w := mustWriter(t, f.Name())
	held := func() (descriptors, mappings int) {
		t.Helper()
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		maps, err := os.ReadFile("/proc/self/maps")
		must(t, err)
		for _, e := range entries { // descriptors of earlier tests may be collected at any time
			if to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); strings.HasPrefix(to, f.Name()) {
				descriptors++
			}
		}
		return descriptors, strings.Count(string(maps), f.Name())
	}
	descriptors, mappings := held()
	for i := range int64(3) {
		must(t, w.Checkpoint((i+2)*wal.MinBytes))
		if d, m := held(); d != descriptors || m != mappings {
			t.Errorf("after log %d: %d descriptors and %d mappings, not %d and %d", i+2, d, m, descriptors, mappings)
		}
	}
	if err := w.Abandon(); err != nil {
		t.Error(err)
	}
}
