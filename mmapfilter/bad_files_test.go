package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestBadFiles checks that opening and verifying damaged files, and files that are no filters,
// return typed errors that name the place.
func TestBadFiles(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 500))
	good, err := os.ReadFile(path)
	must(t, err)
	both := func(t *testing.T, content []byte) (open, verify error) {
		t.Helper()
		bad := filepath.Join(t.TempDir(), "bad")
		must(t, os.WriteFile(bad, content, 0o600))
		f, open := OpenReadOnly(bad, nil)
		if open == nil {
			f.Close()
		}
		_, verify = Verify(context.Background(), bad)
		return open, verify
	}
	t.Run("truncated", func(t *testing.T) {
		bad := filepath.Join(t.TempDir(), "bad")
		must(t, os.WriteFile(bad, good, 0o600))
		for n := len(good) - 1; n >= 0; n-- {
			must(t, os.Truncate(bad, int64(n)))
			var e *CorruptError
			if _, err := OpenReadOnly(bad, nil); !errors.As(err, &e) || e.Region != layout.RegionFile || e.Offset != int64(n) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	})
	t.Run("longer", func(t *testing.T) {
		open, verify := both(t, append(good[:len(good):len(good)], 0))
		if !errors.Is(open, ErrCorrupt) || !errors.Is(verify, ErrCorrupt) {
			t.Errorf("%v, %v", open, verify)
		}
	})
	t.Run("foreign", func(t *testing.T) {
		open, verify := both(t, []byte(strings.Repeat("PK\x03\x04", 20_000)))
		if !errors.Is(open, ErrCorrupt) || !errors.Is(verify, ErrCorrupt) || !strings.Contains(open.Error(), "not a filter file") {
			t.Errorf("%v, %v", open, verify)
		}
	})
	t.Run("not read at open", func(t *testing.T) {
		// Damage everything but the superblocks and the lines: the checksums and the trailer.
		content := append([]byte(nil), good...)
		for i := 36864; i < len(content); i++ {
			content[i] = 0xA5
		}
		open, verify := both(t, content)
		if open != nil || !errors.Is(verify, ErrCorrupt) {
			t.Errorf("%v, %v", open, verify)
		}
	})
	// resign changes every superblock of a copy and signs it again.
	resign := func(change func(*layout.Superblock)) []byte {
		content := append([]byte(nil), good...)
		for i := range layout.SuperblockSlots {
			sb := (*layout.Superblock)(content[i*layout.SuperblockBytes:])
			change(sb)
			sb.Sign()
		}
		return content
	}
	t.Run("live", func(t *testing.T) {
		open, verify := both(t, resign(func(sb *layout.Superblock) { sb.SetState(layout.Live) }))
		if !errors.Is(open, ErrNeedsRecovery) || !errors.Is(verify, ErrNeedsRecovery) {
			t.Errorf("%v, %v", open, verify)
		}
	})
	t.Run("clean", func(t *testing.T) {
		open, verify := both(t, resign(func(sb *layout.Superblock) { sb.SetState(layout.Clean) }))
		if open != nil || verify != nil {
			t.Errorf("%v, %v", open, verify)
		}
	})
	t.Run("clean, a line that cannot be", func(t *testing.T) {
		// f=8 has bits that no slot uses.
		_, path := mustBuild(t, &Options{FalsePositiveRate: 0.1}, numbers(0, 500))
		content, err := os.ReadFile(path)
		must(t, err)
		for i := range layout.SuperblockSlots {
			sb := (*layout.Superblock)(content[i*layout.SuperblockBytes:])
			sb.SetState(layout.Clean)
			sb.Sign()
		}
		for off, mask := range map[int]byte{layout.OffRegion + 2*64 + 7: 1, 36864 - 1: 1} {
			content[off] ^= mask
			_, verify := both(t, content)
			var e *CorruptError
			if !errors.As(verify, &e) || e.Region != layout.RegionBuckets || e.Offset > int64(off) || e.Offset < int64(off)-64 || e.Rule != "F10" {
				t.Errorf("offset %d: %v", off, verify)
			}
			content[off] ^= mask
		}
	})
	t.Run("wrong length", func(t *testing.T) {
		for _, length := range []uint64{499, 501} { // a key too many or too few
			open, verify := both(t, resign(func(sb *layout.Superblock) {
				sb.SetState(layout.Clean)
				sb.SetLength(length)
			}))
			if open != nil || !errors.Is(verify, ErrCorrupt) || !strings.Contains(verify.Error(), "F13") {
				t.Errorf("length %d: %v, %v", length, open, verify)
			}
		}
	})
	t.Run("incompat flag", func(t *testing.T) {
		open, verify := both(t, resign(func(sb *layout.Superblock) { sb[40] = 4 }))
		var e *VersionError
		if !errors.As(open, &e) || e.Features != 4 || !errors.Is(verify, ErrVersion) {
			t.Errorf("%v, %v", open, verify)
		}
	})
	t.Run("directory", func(t *testing.T) {
		var e *fs.PathError
		if _, err := OpenReadOnly(t.TempDir(), nil); !errors.As(err, &e) {
			t.Errorf("%v", err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		if _, err := Verify(context.Background(), filepath.Join(t.TempDir(), "x")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}

// TestEveryBitOfTheHead flips bits of the superblocks: the filter opens from another copy, or not at
// all if it is the same bit of all.
func TestEveryBitOfTheHead(t *testing.T) {
	t.Parallel() // uses only one processor
	_, path := mustBuild(t, nil, numbers(0, 500))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	// One bit in three of the fields, and some of the zeros behind them, which the checksum covers as
	// well; others in each run.
	next := func(bit int) int {
		switch {
		case testing.Short():
			return bit + 97
		case bit%(8*layout.SuperblockBytes) < 8*256 || bit%(8*layout.SuperblockBytes) >= 8*(layout.SuperblockBytes-16):
			return bit + 3
		}
		return bit + 29
	}
	from := seeded(t, rand.Uint64()).IntN(3)
	for bit := from; bit < 8*layout.OffRuntime; bit = next(bit) {
		flip(t, file, int64(bit/8), 1<<(bit%8))
		f, err := OpenReadOnly(path, nil)
		if err != nil {
			t.Fatalf("bit %d: %v", bit, err)
		}
		if found, _ := countFound(f, numbers(0, 20)); found != 20 {
			t.Fatalf("bit %d: %d of 20 keys", bit, found)
		}
		f.Close()
		flip(t, file, int64(bit/8), 1<<(bit%8))
	}
	// The same bit in all four copies.
	for bit := from; bit < 8*layout.SuperblockBytes; bit = next(bit) {
		for slot := range int64(4) {
			flip(t, file, slot*layout.SuperblockBytes+int64(bit/8), 1<<(bit%8))
		}
		var e *CorruptError
		if _, err := OpenReadOnly(path, nil); !errors.As(err, &e) || e.Region != layout.RegionSuperblock {
			t.Fatalf("bit %d: %v", bit, err)
		}
		for slot := range int64(4) {
			flip(t, file, slot*layout.SuperblockBytes+int64(bit/8), 1<<(bit%8))
		}
	}
}

// TestVerifyFindsBytes covers F1, F8 and F9: it changes one byte in seven of a small sealed file, others
// in each run. Verify finds it at its offset, in its region.
func TestVerifyFindsBytes(t *testing.T) {
	t.Parallel() // uses only one processor
	_, path := mustBuild(t, nil, numbers(0, 3000))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	clean, err := Verify(context.Background(), path)
	if err != nil || !clean.Sealed || clean.Chunks == 0 || clean.Items != 3000 || len(clean.Damage) != 0 {
		t.Fatalf("%+v, %v", clean, err)
	}
	f, err := OpenReadOnly(path, nil)
	must(t, err)
	g := f.open.Load().geometry
	f.Close()
	step := int64(7)
	if testing.Short() {
		step = 31
	}
	seen := map[string]int{}
	for off := seeded(t, rand.Uint64()).Int64N(step); off < clean.FileBytes; off += step {
		mask := byte(1) << (off % 8)
		if off%5 == 0 {
			mask = 0xFF
		}
		flip(t, file, off, mask)
		r, err := Verify(context.Background(), path)
		var e *CorruptError
		if !errors.As(err, &e) || e.Offset != off || e.Region != g.RegionAt(off) || len(r.Damage) != 1 {
			t.Fatalf("byte %d: %+v, %v", off, r.Damage, err)
		}
		seen[e.Region]++
		flip(t, file, off, mask)
	}
	if len(seen) != 6 && step == 3 {
		t.Errorf("regions: %v", seen)
	}
	// Two bytes far apart are both found, in order.
	flip(t, file, 70_000%g.OffTable, 1)
	flip(t, file, 100, 1)
	if r, err := Verify(context.Background(), path); err == nil || len(r.Damage) != 2 || r.Damage[0].Offset != 100 {
		t.Errorf("%+v, %v", r.Damage, err)
	}
}

func TestVerifyReportsProgress(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 3_000_000))
	var last, total int64
	if _, err := Verify(context.Background(), path, func(done, of int64) {
		if done <= last {
			t.Errorf("%d after %d", done, last)
		}
		last, total = done, of
	}); err != nil || last != total || total == 0 {
		t.Errorf("%d of %d bytes, %v", last, total, err)
	}
}

func TestVerifyCancelled(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 3000))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Verify(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestForgedCapacity covers F6: a superblock whose capacity its lines cannot have is damage, so that
// nobody makes a file for that many keys.
func TestForgedCapacity(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	mustInsert(t, f, 0, 10)
	must(t, f.Close())
	image, err := os.ReadFile(path)
	must(t, err)
	_, sb, _, err := layout.Newest(image)
	must(t, err)
	sb.SetCapacity(0x87000007d0)
	sb.Sign()
	for i := range layout.SuperblockSlots {
		copy(image[i*layout.SuperblockBytes:], sb[:])
	}
	must(t, os.WriteFile(path, image, 0o600))
	if _, err := Open(path, nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "F6: a capacity") {
		t.Error(err)
	}
}
