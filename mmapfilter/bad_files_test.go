package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A badFile is a damaged file, or a file that is not a filter.
type badFile struct {
	data         []byte
	open, verify error  // what OpenReadOnly and Verify return; nil if they find nothing
	says         string // the error of Verify
}

// badFiles makes bad files from good, which is sealed.
func badFiles(tb testing.TB, good []byte) map[string]badFile {
	tb.Helper()
	_, sb, g, err := layout.Newest(good)
	must(tb, err)
	// signed changes every superblock of a copy and signs it again.
	signed := func(change func(sb *layout.Superblock)) []byte {
		data := bytes.Clone(good)
		for i := range layout.SuperblockSlots {
			sb := (*layout.Superblock)(data[i*layout.SuperblockBytes:])
			change(sb)
			sb.Sign()
		}
		return data
	}
	clean := signed(func(sb *layout.Superblock) { sb.SetState(layout.Clean) })
	counting := func(items uint64) []byte {
		return signed(func(sb *layout.Superblock) { sb.SetState(layout.Clean); sb.SetLength(items) })
	}
	flipped := func(data []byte, offsets ...int) []byte {
		data = bytes.Clone(data)
		for _, off := range offsets {
			data[off] ^= 1
		}
		return data
	}
	wiped := bytes.Clone(clean)
	clear(wiped[layout.OffRegion : layout.OffRegion+640]) // whole lines, so that only the count is wrong
	const slot = layout.SuperblockBytes
	return map[string]badFile{
		"empty":                     {nil, ErrCorrupt, ErrCorrupt, ""},
		"cut in a superblock":       {good[:5000], ErrCorrupt, ErrCorrupt, ""},
		"cut after the superblocks": {good[:layout.OffRuntime], ErrCorrupt, ErrCorrupt, ""},
		"cut by a byte":             {good[:len(good)-1], ErrCorrupt, ErrCorrupt, ""},
		"longer by a byte":          {slices.Concat(good, []byte{0}), ErrCorrupt, ErrCorrupt, ""},
		"foreign":                   {bytes.Repeat([]byte("no filter "), 10_000), ErrCorrupt, ErrCorrupt, "not a filter file"},
		"newer":                     {signed(func(sb *layout.Superblock) { sb[40] = 4 }), ErrVersion, ErrVersion, ""},
		"live, without a log": {signed(func(sb *layout.Superblock) {
			sb.SetState(layout.Live)
			sb.SetLogSalt(7)
			sb.SetLogBytes(65536)
		}), ErrNeedsRecovery, ErrNeedsRecovery, ""},
		"a capacity that its lines cannot have": {signed(func(sb *layout.Superblock) { sb.SetCapacity(0x87000007d0) }), ErrCorrupt, ErrCorrupt, "F6: a capacity"},

		"a bit of each superblock": {flipped(good, 100, slot+100, 2*slot+100, 3*slot+100), ErrCorrupt, ErrCorrupt, ""},
		"a bit of a superblock":    {flipped(good, 100), nil, ErrCorrupt, "F1"},
		"a bit of a line":          {flipped(good, layout.OffRegion+1000), nil, ErrCorrupt, "F8"},
		"the checksums":            {flipped(good, int(g.OffTable)), nil, ErrCorrupt, ""},
		"the trailer":              {flipped(good, len(good)-1), nil, ErrCorrupt, ""},
		"clean":                    {clean, nil, nil, ""},
		"clean, a line has a bit that no slot uses": {flipped(clean, layout.OffRegion+2*64+7), nil, ErrCorrupt, "F10"},
		"clean, so has the last line":               {flipped(clean, int(g.OffTable)-1), nil, ErrCorrupt, "F10"},
		"clean, lines are wiped":                    {wiped, nil, ErrCorrupt, "F13"},
		"clean, a key too few":                      {counting(sb.Length() - 1), nil, ErrCorrupt, "F13"},
		"clean, a key too many":                     {counting(sb.Length() + 1), nil, ErrCorrupt, "F13"},
	}
}

// TestBadFiles covers C5: opening or verifying a bad file, its bytes or a reader of it returns a typed
// error that names the rule.
func TestBadFiles(t *testing.T) {
	good := image(t, &Options{FalsePositiveRate: 0.1}, numbers(0, 500))
	dir := t.TempDir()
	path := filepath.Join(dir, "good")
	for name, bad := range badFiles(t, good) {
		path := filepath.Join(dir, fmt.Sprintf("%x", name)) // some systems cannot overwrite a mapped file
		must(t, os.WriteFile(path, bad.data, 0o600))
		f, err := OpenReadOnly(path, nil)
		if !errors.Is(err, bad.open) {
			t.Errorf("%s: OpenReadOnly: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
		if _, err := Verify(context.Background(), path); !errors.Is(err, bad.verify) || err != nil && !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: Verify: %v", name, err)
		}
		if _, err := OpenBytes(bad.data, nil); !errors.Is(err, bad.open) {
			t.Errorf("%s: OpenBytes: %v", name, err)
		}
		r, size := bytes.NewReader(bad.data), int64(len(bad.data))
		if _, err := OpenReaderAt(r, size, nil); !errors.Is(err, bad.open) {
			t.Errorf("%s: OpenReaderAt: %v", name, err)
		}
		if _, err := VerifyReaderAt(context.Background(), r, size); !errors.Is(err, bad.verify) || err != nil && !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: VerifyReaderAt: %v", name, err)
		}
	}
	must(t, os.WriteFile(path, good, 0o600))
	step := 1
	if runtime.GOOS == "windows" {
		step = 499 // calls are slow in Wine
	}
	for n := len(good) - 1; n >= 0; n -= step {
		must(t, os.Truncate(path, int64(n)))
		var e *CorruptError
		if _, err := OpenReadOnly(path, nil); !errors.As(err, &e) || e.Region != layout.RegionFile || e.Offset != int64(n) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if _, err := OpenBytes(good[:n], nil); !errors.As(err, &e) || e.Region != layout.RegionFile || e.Offset != int64(n) {
			t.Fatalf("%d bytes in memory: %v", n, err)
		}
	}
	var e *fs.PathError
	if _, err := OpenReadOnly(t.TempDir(), nil); !errors.As(err, &e) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Verify(context.Background(), path+".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestVerifyFindsBytes covers F1, F8 and F9: it changes every seventh byte of a small sealed file, one
// at a time, and different bytes in each run. Verify must report each changed byte once, with its offset
// and region. It must report two changed bytes in the order of the file.
func TestVerifyFindsBytes(t *testing.T) {
	t.Parallel() // uses only one processor
	_, path := mustBuild(t, &Options{FalsePositiveRate: 0.1}, numbers(0, 3000))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	clean, err := Verify(context.Background(), path)
	if err != nil || !clean.Sealed || clean.Chunks == 0 || clean.Items != 3000 || len(clean.Damage) != 0 {
		t.Fatalf("%+v, %v", clean, err)
	}
	_, _, g, err := layout.Newest(readFile(t, path))
	must(t, err)
	step := int64(7)
	if testing.Short() {
		step = 31
	}
	seen := map[string]int{}
	for off := seeded(t, rand.Uint64()).Int64N(step); off < clean.FileBytes; off += step {
		if off < g.OffTable && off+step > g.OffTable { // do not skip the short table of checksums
			off = g.OffTable
		}
		mask := byte(1) << (off % 8)
		if off%5 == 0 {
			mask = 0xFF
		}
		other := (off + clean.FileBytes/2) % clean.FileBytes
		apart := g.RegionAt(off) != g.RegionAt(other) && g.RegionAt(off) != layout.RegionChecksums && g.RegionAt(other) != layout.RegionChecksums
		flip(t, file, off, mask)
		r, err := Verify(context.Background(), path)
		var e *CorruptError
		if !errors.As(err, &e) || e.Offset != off || e.Region != g.RegionAt(off) || len(r.Damage) != 1 {
			t.Fatalf("byte %d: %+v, %v", off, r.Damage, err)
		}
		if seen[e.Region]++; seen[e.Region] < 5 && apart {
			flip(t, file, other, 1)
			if r, err := Verify(context.Background(), path); err == nil || len(r.Damage) != 2 || r.Damage[0].Offset != min(off, other) {
				t.Errorf("bytes %d and %d: %+v, %v", off, other, r.Damage, err)
			}
			flip(t, file, other, 1)
		}
		flip(t, file, off, mask)
	}
	if len(seen) != 6 && !testing.Short() {
		t.Errorf("regions: %v", seen)
	}
}
