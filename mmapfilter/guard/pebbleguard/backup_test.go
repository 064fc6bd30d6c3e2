package pebbleguard

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestFilterOfLastClose has a store die and its filter put back as it was when the store was last
// closed: just before the mark of the last open, whose operations are counted anew.
func TestFilterOfLastClose(t *testing.T) {
	for _, deletes := range bothModes {
		for _, trimmed := range []bool{false, true} {
			dir, died := t.TempDir(), t.TempDir()
			g := &guard.Options{Deletes: deletes, CommitInterval: time.Hour}
			d := mustOpen(t, dir, newest(), g)
			for i := range 100 {
				must(t, d.Set(number(i), nil, pebble.NoSync))
			}
			must(t, d.Close())
			backup := filepath.Join(t.TempDir(), "f")
			copyFile(t, filepath.Join(dir, FilterName), backup)
			d = mustOpen(t, dir, newest(), g)
			for i := 100; i < 110; i++ {
				must(t, d.Set(number(i), nil, pebble.Sync))
			}
			if trimmed {
				must(t, d.Guard().Work())
			}
			copyStore(t, dir, died)
			must(t, d.Close())
			must(t, os.Remove(filepath.Join(died, FilterName+".stash")))
			copyFile(t, backup, filepath.Join(died, FilterName))
			d = mustOpen(t, died, newest(), g)
			t.Logf("%s, trimmed %t: %+v", deletes, trimmed, d.GuardStats())
			if n, err := hidden(d); err != nil || n != 110 {
				t.Errorf("%d keys: %v", n, err)
			}
			must(t, d.Close())
		}
	}
}

// TestFilterOfBeforeMark has a store die and its filter put back as it was at some instant before the
// last mark, whose operations are counted on.
func TestFilterOfBeforeMark(t *testing.T) {
	for _, deletes := range bothModes {
		dir, died := t.TempDir(), t.TempDir()
		g := &guard.Options{Deletes: deletes, CommitInterval: time.Hour}
		d := mustOpen(t, dir, newest(), g)
		must(t, d.Guard().Sync())
		backup := filepath.Join(t.TempDir(), "f")
		copyFile(t, filepath.Join(dir, FilterName), backup)
		copyFile(t, filepath.Join(dir, FilterName+".stash"), backup+".stash")
		for i := range 100 {
			must(t, d.Set(number(i), nil, pebble.NoSync))
		}
		must(t, d.Guard().Rebuild(t.Context()))
		must(t, d.Guard().Work())
		copyStore(t, dir, died)
		must(t, d.Close())
		copyFile(t, backup, filepath.Join(died, FilterName))
		copyFile(t, backup+".stash", filepath.Join(died, FilterName+".stash"))
		d = mustOpen(t, died, newest(), g)
		t.Logf("%s: %+v", deletes, d.GuardStats())
		if n, err := hidden(d); err != nil || n != 100 {
			t.Errorf("%d keys: %v", n, err)
		}
		must(t, d.Close())
	}
}
