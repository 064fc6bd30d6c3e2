package pebbleguard

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

func number(i int) []byte { return binary.BigEndian.AppendUint64([]byte("k"), uint64(i)) }

func mustOpen(tb testing.TB, dir string, o *pebble.Options, g *guard.Options) *DB {
	tb.Helper()
	d, err := Open(dir, o, g)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// mustHave checks that the keys from from up to to are there, and no others up to most.
func mustHave(tb testing.TB, d *DB, from, to, most int) {
	tb.Helper()
	for i := range most {
		there, err := d.Has(number(i))
		if err != nil || there != (i >= from && i < to) {
			tb.Fatalf("key %d: %t, %v; %+v", i, there, err, d.GuardStats())
		}
	}
}

func TestGuard(t *testing.T) {
	for _, deletes := range []guard.DeleteMode{guard.Exact, guard.Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) {
			dir := t.TempDir()
			g := &guard.Options{Capacity: 1000, Deletes: deletes, CommitInterval: 10 * time.Millisecond}
			d := mustOpen(t, dir, nil, g)
			for i := range 20_000 {
				must(t, d.Set(number(i), []byte("v"), pebble.NoSync))
			}
			mustHave(t, d, 0, 20_000, 40_000)
			for i := range 10_000 {
				must(t, d.Delete(number(i), pebble.NoSync))
			}
			mustHave(t, d, 10_000, 20_000, 40_000)
			must(t, d.Close())
			d = mustOpen(t, dir, nil, g)
			mustHave(t, d, 10_000, 20_000, 40_000)
			must(t, d.Guard().Rebuild(context.Background()))
			before := d.GuardStats()
			mustHave(t, d, 10_000, 20_000, 40_000)
			if s := d.GuardStats(); s.State != "serving" || s.FalsePositives-before.FalsePositives > 600 || s.Skipped-before.Skipped < 29_000 {
				t.Errorf("%+v", s)
			}
			must(t, d.Close())
		})
	}
}
