package pebbleguard

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestOtherEndOfAnEpoch: a kill in the Open of a copy of the store, and then a copy that has more of the
// same epoch is put back (G1).
func TestOtherEndOfAnEpoch(t *testing.T) {
	base := t.TempDir()
	dir, s1, s2 := filepath.Join(base, "dir"), filepath.Join(base, "s1"), filepath.Join(base, "s2")
	g := &guard.Options{Capacity: 5000, CommitInterval: time.Hour}
	d := mustOpen(t, dir, atRest(newest()), g)
	setSome(t, d, 0, 10)
	must(t, d.Guard().Work())
	setSome(t, d, 10, 20)
	copyAll(t, d, dir, s1)
	setSome(t, d, 20, 30)
	copyAll(t, d, dir, s2)
	must(t, d.Close())
	o := atRest(newest())
	done := false
	o.EventListener = &pebble.EventListener{TableCreated: func(pebble.TableCreateInfo) {
		if !done {
			done = true
			copyFilter(t, s1, s2) // a kill at this instant; then the newer store is put back
		}
	}}
	d = mustOpen(t, s1, o, g)
	must(t, d.Close())
	d = mustOpen(t, s2, newest(), g)
	defer func() { must(t, d.Close()) }()
	if keys, err := hidden(d); err != nil || keys != 30 || !done {
		t.Errorf("%d keys, killed %t: %v", keys, done, err)
	}
}
