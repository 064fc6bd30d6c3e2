package pebbleguard

import (
	"encoding/binary"
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

// wait waits for something.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("waited too long: " + what)
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
