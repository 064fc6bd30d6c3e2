package pebbleguard

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// still has a guard do nothing in the background.
func still() *guarded.Hooks {
	open := func(path string) (guarded.Filter, error) {
		f, err := mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: -1})
		return guarded.Of(f), err
	}
	return &guarded.Hooks{
		Create: func(path string, o *mmapfilter.Options) (guarded.Filter, error) {
			f, err := mmapfilter.Build(context.Background(), path, o, func(func([]byte, error) bool) {}) // in place of another
			if err != nil {
				return nil, err
			}
			if err := f.Close(); err != nil {
				return nil, err
			}
			return open(path)
		},
		Open: open, Random: rand.Uint64, Manual: true,
	}
}

// TestClosedWhenFull closes a store whose log takes the place of the outbox while keys wait for a
// larger filter: the next one takes them from the log, and they wait again.
func TestClosedWhenFull(t *testing.T) {
	const keys = 40_000
	dir, g := t.TempDir(), &guard.Options{Capacity: 1000, Deletes: guard.Rebuild, Hooks: still()}
	d := mustOpen(t, dir, newest(), g)
	for i := range keys {
		must(t, d.Set(number(i), nil, pebble.NoSync))
	}
	must(t, d.Guard().Work())
	if s := d.GuardStats(); s.State != "serving" || s.Overflow < 1000 {
		t.Errorf("%+v", s)
	}
	must(t, d.Close())
	g.Hooks = still()
	d = mustOpen(t, dir, newest(), g)
	if s := d.GuardStats(); s.State != "serving" || s.Overflow < 1000 {
		t.Errorf("%+v", s)
	}
	mustHave(t, d, 0, keys, keys+1000)
	must(t, d.Guard().Rebuild(t.Context()))
	if s := d.GuardStats(); s.State != "serving" || s.Keys < keys*99/100 || s.Overflow != 0 {
		t.Errorf("%+v", s)
	}
	mustHave(t, d, 0, keys, keys+1000)
	must(t, d.Close())
}
