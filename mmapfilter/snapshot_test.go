package mmapfilter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// mustSnapshot makes a snapshot, checks it, and opens it.
func mustSnapshot(t *testing.T, f *Filter) (*Filter, Position, string) {
	t.Helper()
	at, path := mustCopy(t, f.Snapshot, "copy.mmf")
	return mustOpenReadOnly(t, path, nil), at, path
}

// mustSnapshotWithHashes makes a snapshot that keeps the hashes, and checks it.
func mustSnapshotWithHashes(t *testing.T, f *Filter) (Position, string) {
	t.Helper()
	return mustCopy(t, f.SnapshotWithHashes, "copy.mmf", "copy.mmf.hashes")
}

// mustCopy makes a snapshot called copy.mmf, and checks it and the names of its files.
func mustCopy(t *testing.T, snapshot func(context.Context, string) (Position, error), files ...string) (at Position, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "copy.mmf")
	at, err := snapshot(context.Background(), path)
	must(t, err)
	if _, err := Verify(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	mustListed(t, filepath.Dir(path), files...)
	return at, path
}

func numberKey(i uint64) []byte { return binary.LittleEndian.AppendUint64(nil, i) }

// TestSnapshotBytes checks that a snapshot of a filter without hashes equals the file sealed at that
// moment, except for the superblocks, the runtime page, and the checksum of the chunk of that page.
func TestSnapshotBytes(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 20_000})
	for i := range uint64(15_000) {
		must(t, f.Insert(numberKey(i)))
	}
	must(t, f.SyncAt(7))
	must(t, f.Insert(numberKey(20_000)))
	_, at, copied := mustSnapshot(t, f)
	if !at.IsZero() {
		t.Errorf("a filter without hashes is at %v", at)
	}
	must(t, f.Seal(context.Background()))
	sealed, snapshot := readFile(t, path), readFile(t, copied)
	g := headOf(t, copied)
	table := g.OffTable
	if !bytes.Equal(sealed[layout.OffStash:table], snapshot[layout.OffStash:table]) || !bytes.Equal(sealed[table+4:g.OffTrailer], snapshot[table+4:g.OffTrailer]) {
		t.Error("stash, lines or checksums differ")
	}
	if !bytes.Equal(snapshot[layout.OffRuntime:layout.OffStash], make([]byte, layout.OffStash-layout.OffRuntime)) {
		t.Error("the runtime page is not zero")
	}
}

// headOf returns the geometry of a file.
func headOf(t *testing.T, path string) layout.Geometry {
	t.Helper()
	_, _, g, err := layout.Newest(readFile(t, path)[:layout.OffRuntime])
	must(t, err)
	return g
}

// TestSnapshotBesideWriter makes snapshots, by the writer and by a reader, while a goroutine inserts and
// deletes keys in a known order, with checkpoints and growing logs. Each copy must have exactly the
// operations that its sequence says.
func TestSnapshotBesideWriter(t *testing.T) {
	const inserts = 60_000
	for name, logBytes := range map[string]int64{"growing log": 0, "small log": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			f, path := mustCreate(t, &Options{Capacity: inserts, LogBytes: logBytes})
			reader := mustOpenReadOnly(t, path, nil)
			var stop atomic.Bool
			var wait sync.WaitGroup
			wait.Add(1)
			go func() { // operation i inserts key i, and deletes key i - 7 if 7 divides i
				defer wait.Done()
				for i := uint64(0); i < inserts && !stop.Load(); i++ {
					if err := f.Insert(numberKey(i)); err != nil {
						t.Error(err)
						return
					}
					if i%7 == 0 && i > 0 {
						if _, err := f.Delete(numberKey(i - 7)); err != nil {
							t.Error(err)
							return
						}
					}
					if i%500 == 0 {
						if err := f.SyncAt(i + 1); err != nil {
							t.Error(err)
							return
						}
					}
				}
			}()
			for range 6 {
				for _, from := range []*Filter{f, reader} {
					before := from.DurableSeq()
					copied, _, _ := mustSnapshot(t, from)
					if seq := copied.DurableSeq(); seq < before {
						t.Errorf("the copy is at %d, and %d was durable before", seq, before)
					}
					checkOperations(t, copied)
				}
			}
			stop.Store(true)
			wait.Wait()
			copied, _, _ := mustSnapshot(t, f)
			checkOperations(t, copied)
			if f.Len() != copied.Len() {
				t.Errorf("the filter has %d items, and the copy %d", f.Len(), copied.Len())
			}
		})
	}
}

// checkOperations checks that a filter has the result of the operations of TestSnapshotBesideWriter, up
// to the one that its sequence says.
func checkOperations(t *testing.T, f *Filter) {
	t.Helper()
	seq, ops := f.DurableSeq(), f.DurableOps()
	keys := uint64(0) // inserted
	deleted := uint64(0)
	for n := uint64(0); n < seq; n++ {
		keys++
		if n%7 == 0 && n > 0 {
			deleted++
		}
	}
	for i := seq; ops > 0; i++ {
		keys, ops = keys+1, ops-1
		if i%7 == 0 && i > 0 && ops > 0 {
			deleted, ops = deleted+1, ops-1
		}
	}
	if f.Len() != keys-deleted {
		t.Errorf("with sequence %d, the filter has %d items, not %d", seq, f.Len(), keys-deleted)
	}
	for i := range keys {
		if gone := i%7 == 0 && i/7 < deleted; !gone && !f.Contains(numberKey(i)) {
			t.Fatalf("key %d of %d is missing", i, keys)
		}
	}
}

// mustLean inserts keys, and deletes every twentieth, until keys are left out and 20 deletes wait. It
// returns the number of keys that it has inserted.
func mustLean(t *testing.T, f *Filter) (keys uint64) {
	t.Helper()
	for waiting := uint64(0); waiting < 20; keys++ {
		_, err := f.InsertUnique(numberKey(keys))
		must(t, err)
		if keys%20 == 0 {
			_, err := f.Delete(numberKey(keys))
			must(t, err)
		}
		waiting = f.Stats().Waiting
	}
	return keys
}

// TestSnapshotUUIDs checks that two snapshots of a filter have different UUIDs, although the UUID of the
// filter stays the same while it is open.
func TestSnapshotUUIDs(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	must(t, f.Insert([]byte("key")))
	_, _, first := mustSnapshot(t, f)
	must(t, f.Insert([]byte("other")))
	_, _, second := mustSnapshot(t, f)
	if a, b, c := uuidOf(t, path), uuidOf(t, first), uuidOf(t, second); a == b || b == c || a == c {
		t.Errorf("%x, %x, %x", a, b, c)
	}
}

// TestSnapshotRefusals checks which files a snapshot must not replace, and that a failed one leaves
// none.
func TestSnapshotRefusals(t *testing.T) {
	ctx := context.Background()
	f, path := mustCreate(t, &Options{Capacity: 1000})
	must(t, f.Insert([]byte("key")))
	other := filepath.Join(filepath.Dir(path), "other")
	must(t, os.WriteFile(other, []byte("a letter"), 0o666))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(path, link))
	held, heldPath := mustCreate(t, &Options{Capacity: 1000})
	must(t, held.Insert([]byte("key")))
	for _, c := range []struct {
		name, path string
		err        error // or nil for a ForeignError
	}{
		{"the filter", path, fs.ErrExist},
		{"a link to it", link, fs.ErrExist},
		{"its log", path + ".stash", nil},
		{"its next log", path + ".stash.new", nil},
		{"its hashes", path + ".hashes", nil},
		{"its rebuild", path + ".tmp-rebuild", nil},
		{"a letter", other, nil},
		{"a filter with a writer", heldPath, ErrLocked},
		{"another directory", filepath.Join(path+"-none", "copy"), fs.ErrNotExist},
	} {
		for _, from := range []*Filter{f, mustOpenReadOnly(t, path, nil)} {
			_, err := from.Snapshot(ctx, c.path)
			if foreign := errors.As(err, new(*ForeignError)); foreign != (c.err == nil) || !errors.Is(err, c.err) && !foreign {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.Snapshot(cancelled, path+"-copy"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := f.SnapshotWithHashes(ctx, path+"-copy"); !errors.Is(err, ErrNoHashes) {
		t.Errorf("with hashes, of a filter that keeps none: %v", err)
	}
	left, err := filepath.Glob(path + "-copy*")
	if err != nil || len(left) > 0 || string(readFile(t, other)) != "a letter" {
		t.Errorf("left behind: %q, %v", left, err)
	}
	must(t, f.Close())
	if _, err := f.Snapshot(ctx, path+"-copy"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if p := f.Position(); !p.IsZero() {
		t.Errorf("closed: at %v", p)
	}
	waits, err := Follow(path+"-none", &OpenOptions{WaitForFile: true})
	must(t, err)
	defer waits.Close()
	if _, err := waits.Filter().Snapshot(ctx, path+"-copy"); !errors.Is(err, fs.ErrNotExist) || !waits.Filter().Position().IsZero() {
		t.Errorf("waiting: %v", err)
	}
}

// TestSnapshotOfBytes checks that Snapshot of a filter from bytes does not copy a file named "bytes",
// which is the name of such a filter in errors.
func TestSnapshotOfBytes(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 100))
	data := readFile(t, path)
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("bytes", data, 0o666))
	f, err := OpenBytes(data, nil)
	must(t, err)
	defer f.Close()
	if _, err := f.Snapshot(t.Context(), "copy"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := os.Stat("copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a copy was made: %v", err)
	}
}

// TestPositionText writes positions as text and parses them.
func TestPositionText(t *testing.T) {
	for _, p := range []Position{{}, {1, 2, 3}, {math.MaxUint64, math.MaxUint64, math.MaxUint64}} {
		if q, err := ParsePosition(p.String()); err != nil || q != p {
			t.Errorf("%v is read as %v, %v", p, q, err)
		}
	}
	var p Position
	text, err := Position{0x0123456789abcdef, 42, 0xfedcba9876543210}.MarshalText()
	if err != nil || string(text) != "0123456789abcdef-42-fedcba9876543210" || p.UnmarshalText(text) != nil || p.Number != 42 {
		t.Errorf("%s, %v", text, err)
	}
	for _, text := range []string{"", "--", "1-2-3", "0123456789abcdef-42-fedcba987654321", "0123456789ABCDEF-42-fedcba9876543210",
		"0123456789abcdef-042-fedcba9876543210", "0123456789abcdef-+2-fedcba9876543210", "0123456789abcdef-18446744073709551616-fedcba9876543210",
		"0123456789abcdef-42-fedcba9876543210-", " 0123456789abcdef-42-fedcba9876543210"} {
		if q, err := ParsePosition(text); err == nil || q != (Position{}) {
			t.Errorf("%q is read as %v", text, q)
		}
	}
}
