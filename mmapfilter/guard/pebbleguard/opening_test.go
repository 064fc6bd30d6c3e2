package pebbleguard

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// TestTouchedCheckpoint covers G7: a checkpoint with a copy of the filter is like a store after a kill.
// The filter is used, unless a program without the guard has opened the checkpoint since.
func TestTouchedCheckpoint(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		for _, past := range []bool{false, true} {
			base, o := t.TempDir(), guardtest.Quiet(deletes)
			dir, copied := filepath.Join(base, "store"), filepath.Join(base, "copy")
			d := open(t, dir, newest(), o)
			guardtest.Set(t, d, 0, 100)
			must(t, d.guard.Work())
			must(t, d.Checkpoint(copied, pebble.WithFlushedWAL()))
			copyFilter(t, dir, copied)
			must(t, d.Close())
			if past {
				must(t, suite(0, false).Unguarded(copied, []string{"past"}))
			}
			d = open(t, copied, newest(), o)
			if s := d.GuardStats(); (s.Err == "" && s.Rebuilds == 0) == past {
				t.Errorf("opened without the guard: %t: %+v", past, s)
			}
			guardtest.MustHideNone(t, d)
			guardtest.Eventually(t, d, "a filter", guardtest.Serving)
			guardtest.MustKnow(t, d, "past", past)
			must(t, d.Close())
		}
	})
}

// TestOptionsNumber covers G7: only the name of an OPTIONS file has a number.
func TestOptionsNumber(t *testing.T) {
	for name, want := range map[string]uint64{
		"OPTIONS-000012": 12, "OPTIONS-12345678": 12345678, "OPTIONS-000012.dbtmp": 0, "OPTIONS-": 0, "MANIFEST-000012": 0,
	} {
		if got := optionsNumber(name); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
