package writer

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

var (
	usual = tabletest.Compact(41, 7)
	small = tabletest.Compact(25, 26) // has the fewest slots in a line
)

// A change is an operation: grow is 1 for an insert and -1 for a delete.
type change struct {
	hash uint64
	grow int
}

// seeded returns a random generator, and logs its seed.
func seeded(tb testing.TB, seed uint64) *rand.Rand {
	tb.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// mustWriter opens a volume, with a log of the given size.
func mustWriter(tb testing.TB, v recovery.Volume, logBytes int64) *Writer {
	tb.Helper()
	w, _, err := Open(v, LogSize{First: logBytes, Most: logBytes})
	must(tb, err)
	return w
}

// viewOf returns the view that lookups of other processes read.
func viewOf(w *Writer) *layout.View {
	v := layout.NewView(w.words[layout.WordRuntime:], w.protocol.Geometry())
	return &v
}

// TestBatchesAreBounded checks that pending words are committed before there are too many of them, even
// if Sync is never called.
func TestBatchesAreBounded(t *testing.T) {
	const lines = 3 * segmentWords
	w := mustWriter(t, small.Volume(t, lines), 64<<20)
	rng := seeded(t, 1)
	hashes := make([]uint64, lines)
	if testing.Short() {
		hashes = hashes[:lines/2]
	}
	for i := range hashes {
		hashes[i] = rng.Uint64()
		must(t, w.Insert(hashes[i]))
		if n := w.overlay.Load().Active().Len(); n > segmentWords {
			t.Fatalf("%d words are pending", n)
		}
	}
	commits, checkpoints := w.protocol.Counts()
	if commits < 1 || commits > 15 || checkpoints != 0 {
		t.Errorf("%d commits, %d checkpoints", commits, checkpoints)
	}
	for i, h := range hashes {
		if !w.Contains(h) {
			t.Fatalf("key %d of %d is lost", i, len(hashes))
		}
	}
}

// waitingSyncs makes each sync of a log, while block is set, send to syncing and wait for goOn.
func waitingSyncs(v *tabletest.Volume) (syncing, goOn chan struct{}, block *atomic.Bool) {
	syncing, goOn, block = make(chan struct{}), make(chan struct{}), new(atomic.Bool)
	v.LogSync = func() {
		if block.Load() {
			syncing <- struct{}{}
			<-goOn
		}
	}
	return syncing, goOn, block
}

// TestOperationsGoOnDuringACommit checks that operations and lookups return while a commit waits for the
// disk. The operations must belong to the next commit.
func TestOperationsGoOnDuringACommit(t *testing.T) {
	v := small.Volume(t, 100)
	syncing, goOn, block := waitingSyncs(v)
	w := mustWriter(t, v, 0)
	view := viewOf(w)
	rng := seeded(t, 1)
	first, second, third := rng.Uint64(), rng.Uint64(), rng.Uint64()
	for _, h := range []uint64{first, second} {
		must(t, w.Insert(h))
	}
	block.Store(true)
	committed := make(chan error)
	go func() { committed <- w.SyncAt(func(uint64) uint64 { return 7 }) }()
	<-syncing

	must(t, w.Insert(third))
	if ok, err := w.Delete(second); !ok || err != nil {
		t.Fatalf("delete: %t, %v", ok, err)
	}
	if !w.Contains(first) || w.Contains(second) || !w.Contains(third) {
		t.Error("lookups of this process do not see the newest state")
	}
	for _, h := range []uint64{first, second, third} {
		if layout.Contains(w.table, view, h) {
			t.Error("the mapping has an operation that is not durable")
		}
	}
	if seq, ops, _ := w.protocol.Durable(); seq != 0 || ops != 0 {
		t.Errorf("%d + %d are durable", seq, ops)
	}
	block.Store(false)
	goOn <- struct{}{}
	must(t, <-committed)
	if seq, ops, _ := w.protocol.Durable(); seq != 7 || ops != 0 {
		t.Errorf("%d + %d are durable", seq, ops)
	}
	if !layout.Contains(w.table, view, first) || !layout.Contains(w.table, view, second) || layout.Contains(w.table, view, third) {
		t.Error("the mapping does not have exactly the operations of the commit")
	}
	if !w.Contains(first) || w.Contains(second) || !w.Contains(third) {
		t.Error("lookups of this process do not see the newest state")
	}
	must(t, w.Sync())
	if seq, ops, _ := w.protocol.Durable(); seq != 7 || ops != 2 {
		t.Errorf("%d + %d are durable", seq, ops)
	}
	if !layout.Contains(w.table, view, first) || layout.Contains(w.table, view, second) || !layout.Contains(w.table, view, third) {
		t.Error("the mapping does not have the newest state")
	}
}

// TestOperationFitsTheLog checks that half of the smallest log has room for two of the longest
// operations.
func TestOperationFitsTheLog(t *testing.T) {
	for _, kind := range layout.Kinds() {
		for _, p := range layout.LegalParams(kind) {
			g, err := layout.NewGeometry(kind, p, 100)
			must(t, err)
			table := layout.NewTable(g)
			w := wal.NewWriter(make([]uint64, wal.MinBytes/8), nil, 2, 1, 0)
			if n, room := place.MaxStores(table), int(w.Room()); n > room/2 {
				t.Errorf("%s %+v: %d stores in one operation, and room for %d", kind, p, n, room)
			}
		}
	}
}
