package pebbleguard

import (
	"context"
	"encoding/binary"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

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

// TestSnapshots gets keys from snapshots: the filter answers until keys have left it, and then the
// store. What the store says then tells nothing of the filter.
func TestSnapshots(t *testing.T) {
	for _, deletes := range bothModes {
		for _, kind := range []string{"snapshot", "eventually file-only"} {
			t.Run(kind+"/"+deletes.String(), func(t *testing.T) {
				d := mustOpen(t, t.TempDir(), newest(), &guard.Options{FalsePositiveRate: 1e-7, Deletes: deletes})
				defer d.Close()
				for i := range 300 {
					must(t, d.Set(number(i), nil, pebble.NoSync))
				}
				var snapshot interface {
					Get(key []byte) ([]byte, io.Closer, error)
					Close() error
				} = d.NewSnapshot()
				if kind != "snapshot" {
					snapshot = d.NewEventuallyFileOnlySnapshot([]pebble.KeyRange{{Start: number(0), End: number(1000)}})
				}
				defer snapshot.Close()
				look := func(want guard.Stats) {
					t.Helper()
					before := d.GuardStats()
					for i := range 600 {
						_, c, err := snapshot.Get(number(i))
						if err == nil {
							must(t, c.Close())
						}
						if (err == nil) != (i < 300) {
							t.Fatalf("key %d: %v", i, err)
						}
					}
					s := d.GuardStats()
					if s.Skipped-before.Skipped != want.Skipped || s.Unfiltered-before.Unfiltered != want.Unfiltered || s.FalsePositives != 0 {
						t.Errorf("%+v", s)
					}
				}
				look(guard.Stats{Skipped: 300})
				for i := range 300 {
					must(t, d.Delete(number(i), pebble.NoSync))
				}
				must(t, d.Guard().Work())
				must(t, d.Guard().Rebuild(context.Background()))
				look(guard.Stats{Unfiltered: 600})
			})
		}
	}
}

// TestMemory has a store in memory, and its filter in a file.
func TestMemory(t *testing.T) {
	for _, deletes := range bothModes {
		fs, g := vfs.NewMem(), &guard.Options{Path: filepath.Join(t.TempDir(), "f"), Deletes: deletes}
		for n := 0; n < 3000; n += 1000 {
			o := newest()
			o.FS = fs
			d := mustOpen(t, "store", o, g)
			if s := d.GuardStats(); s.State != "serving" || s.Err != "" && n > 0 {
				t.Errorf("%+v", s)
			}
			for i := range 1000 {
				must(t, d.Set(number(n+i), nil, pebble.NoSync))
			}
			mustHave(t, d, 0, n+1000, 5000)
			must(t, d.Close())
		}
	}
}
