package mmapfilter

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// TestLengths cuts the log and the file short: to one length in eleven of the log and the head, others
// in each run, and around every boundary of the rest.
func TestLengths(t *testing.T) {
	t.Parallel() // uses only one processor
	h, full, _, _ := newHistory(t, 5)
	s := &h.snapshots[full]
	path := filepath.Join(memoryDir(t), "filter.mmf")
	s.fileImage.write(t, path)
	// Every open must be refused, and a refused file stays as it is. So the file only ever gets
	// shorter.
	cut := func(name string, length int64, mayOpen bool) {
		t.Helper()
		must(t, os.Truncate(name, length))
		f, err := Open(path, &OpenOptions{CommitInterval: -1})
		if err == nil {
			missing := 0
			for key, n := range s.keys {
				if n > 0 && !f.ContainsHash(key) {
					missing++
				}
			}
			if !mayOpen || missing > 0 || f.Len() != s.want.length {
				t.Errorf("%s of %d bytes was opened: %d keys of %d are missing", filepath.Ext(name), length, missing, len(s.keys))
			}
			f.Close()
			s.fileImage.write(t, path)
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s of %d bytes: %v", filepath.Ext(name), length, err)
		}
	}
	rng := seeded(t, rand.Uint64())
	by := 11 * int64(stride(wal.MinBytes))
	for n := int64(wal.MinBytes) - 1 - rng.Int64N(by); n >= 0; n -= by {
		cut(path+".stash", n, false)
	}
	if filter, err := os.ReadFile(path); err != nil || !bytes.Equal(filter, recovery.Bytes(s.filter)) {
		t.Errorf("opening without a log changed the file: %v", err)
	}
	s.fileImage.write(t, path)
	_, _, g, err := layout.Newest(recovery.Bytes(s.filter[:layout.OffRuntime/8]))
	must(t, err)
	by = 11 * int64(stride(layout.OffRuntime))
	first := rng.Int64N(by)
	for n := g.SealedBytes - 1; n >= 0; n-- {
		border := false
		for _, b := range []int64{layout.OffRuntime, layout.OffStash, layout.OffRegion, layout.OffRegion + g.RegionBytes, g.OffTable, g.OffTrailer, g.SealedBytes} {
			border = border || n > b-70 && n < b+70
		}
		if border || n%layout.PageBytes == 0 || n < layout.OffRuntime && n%by == first {
			// A file that is not sealed may end where its checksums would begin.
			cut(path, n, n == g.OffTable)
		}
	}
}

// TestInsertsBesideADamagedLine: a search for room gives up on a line whose counts are wrong.
// The answers then mean nothing, but nothing panics.
func TestInsertsBesideADamagedLine(t *testing.T) {
	for trial := range uint64(40) {
		path := filepath.Join(memoryDir(t), fmt.Sprint(trial))
		f := createLines(t, path, compact7, 20, Options{LogBytes: 1 << 20, Seed: 5})
		rng := rand.New(rand.NewPCG(trial, 1))
		for range 940 {
			must(t, f.InsertHash(rng.Uint64()))
		}
		must(t, f.Close())
		data := readFile(t, path)
		data[layout.OffRegion+layout.LineBytes*rng.IntN(20)+rng.IntN(8)] ^= 1 << rng.IntN(8)
		must(t, os.WriteFile(path, data, 0o644))
		f = mustOpen(t, path, &OpenOptions{CommitInterval: -1, LogBytes: 1 << 20})
		for range 400 {
			if err := f.InsertHash(rng.Uint64()); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		}
		must(t, f.Close())
	}
}
