package mmapfilter

import (
	"context"
	"errors"
	"math"
	"os"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestOpenRecovers covers C2, R3 and W6: opening the file of a dead writer, also for reading,
// finds all operations that returned, synced or not.
func TestOpenRecovers(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 10_000, LogBytes: 4 << 20})
	keys := hashes(1, 6000)
	insertAll(t, f, keys[:3000])
	must(t, f.SyncAt(77))
	insertAll(t, f, keys[3000:])
	for name, open := range map[string]func(string, *OpenOptions) (*Filter, error){"reader": OpenReadOnly, "writer": Open} {
		dead := abandon(t, f, path)
		if _, err := Verify(context.Background(), dead); !errors.Is(err, ErrNeedsRecovery) {
			t.Errorf("%s: Verify says %v", name, err)
		}
		g, err := open(dead, nil)
		must(t, err)
		mustContain(t, g, keys)
		if g.Len() != 6000 || g.DurableSeq() != 77 || g.DurableOps() != 3000 {
			t.Errorf("%s: %d keys, %d operations after %d", name, g.Len(), g.DurableOps(), g.DurableSeq())
		}
		if r := g.Stats().Recovery; r.Recovered != (name == "writer") || r.Recovered && (r.Records < 6000 || r.Length != 6000) {
			t.Errorf("%s: %+v", name, r)
		}
		must(t, g.Close())
		if _, err := Verify(context.Background(), dead); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplacedFileEndsWriter covers W9: a commit to a file that no longer has its name is not
// acknowledged.
func TestReplacedFileEndsWriter(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100})
	insertAll(t, f, hashes(2, 10))
	must(t, f.Sync())
	insertAll(t, f, hashes(3, 10))
	must(t, os.Rename(path, path+".old"))
	if err := f.Sync(); !errors.Is(err, ErrReplaced) {
		t.Errorf("Sync says %v", err)
	}
	if err := f.InsertHash(1); !errors.Is(err, ErrFailed) || !errors.Is(err, ErrReplaced) {
		t.Errorf("Insert says %v", err)
	}
	if err := f.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close says %v", err)
	}
}

// TestUnseal covers W7: the first operation on a sealed file gives it another identity, and its
// trailer no longer counts; Seal seals it again.
func TestUnseal(t *testing.T) {
	built, path := mustBuild(t, &Options{Capacity: 5000}, numbers(0, 4000))
	uuid := built.Stats().UUID
	f := mustOpen(t, path, &OpenOptions{CommitInterval: -1})
	if s := f.Stats(); s.State != "sealed" || s.UUID != uuid || s.LogBytes != 0 {
		t.Errorf("opened: %+v", s)
	}
	if ok, err := f.Delete([]byte("not there")); ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
	insertAll(t, f, hashes(4, 10))
	s := f.Stats()
	if s.State != "live" || s.UUID == uuid || s.LogBytes == 0 || s.Pending != 10 || s.Len != 4010 {
		t.Errorf("after an insert: %+v", s)
	}
	for _, sealed := range []bool{false, true} {
		if sealed {
			must(t, f.Seal(context.Background()))
		}
		copied := abandon(t, f, path)
		g, err := Open(copied, nil)
		must(t, err)
		must(t, g.Close())
		if r, err := Verify(context.Background(), copied); err != nil || r.Sealed != sealed || r.Items != 4010 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	mustContain(t, f, hashes(4, 10))
	if n, asked := countFound(f, numbers(0, 4000)); n != asked {
		t.Errorf("%d of %d keys", n, asked)
	}
}

// TestCountersMakeMaybe covers R2 for a writer that died between two stores: an odd counter or
// epoch turns "no" into "maybe", only for the lines that it stands for.
func TestCountersMakeMaybe(t *testing.T) {
	g, err := layout.NewGeometry(compact7.kind, compact7.Params, 600)
	must(t, err)
	table := layout.NewTable(g)
	words := make([]uint64, (layout.OffRegion-layout.OffRuntime+g.RegionBytes)/8)
	view := layout.NewView(words, g)
	absent := hashes(5, 1000)
	count := func() (n int) {
		for _, h := range absent {
			if layout.Contains(table, &view, h) {
				n++
			}
		}
		return n
	}
	if n := count(); n != 0 {
		t.Fatalf("%d found in an empty table", n)
	}
	view.Runtime[layout.RuntimeEpoch] = 3
	if n := count(); n != len(absent) {
		t.Errorf("%d of %d found during a recovery", n, len(absent))
	}
	view.Runtime[layout.RuntimeEpoch] = 4
	for _, h := range absent[:20] {
		first, _ := table.Words(table.Split(h).Line)
		counter := layout.CounterOf(layout.WordRegion + first)
		view.Runtime[counter]++
		if !layout.Contains(table, &view, h) {
			t.Error("a line with an odd counter says no")
		}
		if n := count(); n > 60 {
			t.Errorf("%d of %d found with one odd counter", n, len(absent))
		}
		view.Runtime[counter]++
	}
	if n := count(); n != 0 {
		t.Errorf("%d found with even counters", n)
	}
}

// TestLookupSeesMoves covers R2: a lookup overtaken by a move says "maybe". The writer moves the
// item between any two loads of the lookup: home, away, to the stash and back. The lookup never
// misses it.
func TestLookupSeesMoves(t *testing.T) {
	for _, s := range oneEach() {
		t.Run(s.String(), func(t *testing.T) { lookupSeesMoves(t, s) })
	}
}

func lookupSeesMoves(t *testing.T, s shape) {
	g, err := layout.NewGeometry(s.kind, s.Params, 7)
	must(t, err)
	table := layout.NewTable(g)
	for _, h := range hashes(6, 40) {
		home := table.Split(h)
		if table.Alternate(home).Line == home.Line {
			continue
		}
		for first := range 20 {
			for second := first; second < 24; second++ {
				lookUpDuringMoves(t, g, h, first, second)
			}
		}
	}
}

// lookUpDuringMoves makes two moves overtake a lookup, before its loads number first and second.
func lookUpDuringMoves(t *testing.T, g layout.Geometry, h uint64, first, second int) {
	table := layout.NewTable(g)
	words := make([]uint64, (layout.OffRegion+g.RegionBytes)/8)
	view := layout.NewView(words[layout.WordRuntime:], g)
	home := table.Split(h)
	other := table.Alternate(home)
	change := func(it layout.Item, f func(*layout.Line, layout.Item, *layout.Stores) bool) {
		var l layout.Line
		var s layout.Stores
		layout.Load(table, view.Region, it.Line, &l)
		f(&l, it, &s)
		for i := range s.Len() {
			word, guarded := s.At(i)
			first, _ := table.Words(it.Line)
			at := layout.WordRegion + first + uint64(word)
			if guarded {
				view.Runtime[layout.CounterOf(at)]++
				defer func() { view.Runtime[layout.CounterOf(at)]++ }()
			}
			words[at] = l[word]
		}
	}
	setOverflow := func(l *layout.Line, it layout.Item, s *layout.Stores) bool {
		if bits, ok := table.(layout.Hosts); ok {
			bits.SetOverflow(l, it, s)
		}
		return true
	}
	// The item is in its second line; it comes home and leaves again.
	change(other, table.Place)
	change(home, setOverflow)
	moves := []func(){
		func() { change(home, table.Place); change(other, table.Remove) },
		func() { change(other, table.Place); change(home, table.Remove) },
	}
	loads := 0
	at := func(word uint64) uint64 {
		for len(moves) > 0 && (loads >= second || loads >= first && len(moves) == 2) {
			moves[0]()
			moves = moves[1:]
		}
		loads++
		return atomic.LoadUint64(&words[word])
	}
	if !layout.Lookup(table, at, h) {
		t.Fatalf("missed hash %x with moves before loads %d and %d", h, first, second)
	}
}

// TestReaderWithoutPermission covers R3: a process without write permission gets
// ErrNeedsRecovery.
func TestReaderWithoutPermission(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100})
	insertAll(t, f, hashes(7, 10))
	dead := abandon(t, f, path)
	must(t, os.Chmod(dead, 0o444))
	if w, err := os.OpenFile(dead, os.O_RDWR, 0); err == nil {
		w.Close()
		t.Skip("this user may write to everything")
	}
	if _, err := OpenReadOnly(dead, nil); !errors.Is(err, ErrNeedsRecovery) {
		t.Errorf("%v", err)
	}
}

// TestReadOnlyRefusesWrites calls every method that writes on a filter that is open for reading,
// and on a closed one.
func TestReadOnlyRefusesWrites(t *testing.T) {
	f, _ := mustBuild(t, nil, numbers(0, 10))
	ctx := context.Background()
	calls := map[string]func() error{
		"Insert":       func() error { return f.Insert([]byte("k")) },
		"InsertBatch":  func() error { _, err := f.InsertBatch([][]byte{nil}); return err },
		"InsertUnique": func() error { _, err := f.InsertUnique(nil); return err },
		"Delete":       func() error { _, err := f.Delete(nil); return err },
		"Sync":         f.Sync,
		"SyncAt":       func() error { return f.SyncAt(1) },
		"Checkpoint":   func() error { return f.Checkpoint(ctx) },
		"Seal":         func() error { return f.Seal(ctx) },
	}
	for _, want := range []error{ErrReadOnly, ErrClosed} {
		for name, call := range calls {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s says %v, not %v", name, err, want)
			}
		}
		f.Close()
	}
	if f.Count([]byte("k")) != math.MaxUint64 || f.DurableSeq() != 0 || f.Stats().Recovery != (Recovery{}) {
		t.Error("a closed filter says something")
	}
}
