package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// newMemoryVolume makes a volume with an empty filter in the heap.
func newMemoryVolume(tb testing.TB, p shape, lines uint64) *tabletest.Volume {
	return p.table().Volume(tb, lines)
}

func mustWriter(tb testing.TB, v recovery.Volume, logBytes int64) *engine.Writer {
	tb.Helper()
	w, _, err := engine.Open(v, engine.LogSize{First: logBytes, Most: logBytes})
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// viewOf returns what lookups of other processes read.
func viewOf(w *engine.Writer) *layout.View {
	v := layout.NewView(w.Protocol().Words()[layout.WordRuntime:], w.Protocol().Geometry())
	return &v
}

// A shared is a filter under test by TestConcurrent.
type shared struct {
	table        layout.Table
	insert       func(hash uint64) error
	insertAll    func(hashes []uint64) (int, error)
	delete       func(hash uint64) (bool, error)
	contains     func(hash uint64) bool
	containsAll  func(hashes []uint64, found []bool)
	count        func(hash uint64) uint64
	foreign      func(hash uint64) bool // a lookup of another process
	sync         func() error
	checkpoint   func() error
	afterwards   func() layout.View
	lengthAtLast func() uint64
}

// TestConcurrent runs many goroutines on a nearly full table: one inserts and deletes, several
// look up keys that are never deleted, one by one and in batches, one inserts batches, and
// others sync and checkpoint. No lookup misses a key.
//
//	go test -race ./mmapfilter -run 'Concurrent|Pending'
//
// The race detector does not see mapped memory, so the test also uses a filter in the heap.
func TestConcurrent(t *testing.T) {
	for _, p := range oneEach() {
		t.Run(p.String(), func(t *testing.T) { testConcurrentBoth(t, p) })
	}
}

// testConcurrentBoth runs the test on a file and in the heap.
func testConcurrentBoth(t *testing.T, p shape) {
	const logBytes = 128 << 10
	lines := p.lines(60)
	t.Run("file", func(t *testing.T) {
		f, path := newLines(t, p, lines, Options{LogBytes: logBytes})
		w := writerOf(f)
		w.Behind = f.open.Load().work.Behind // also work in the background
		reader, err := OpenReadOnly(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		testConcurrent(t, shared{
			table:  w.Table(),
			insert: f.InsertHash, insertAll: func(hashes []uint64) (n int, err error) { err = w.InsertAll(hashes, nil, &n); return n, err }, delete: f.DeleteHash,
			contains: f.ContainsHash, containsAll: f.ContainsHashes, count: w.Count,
			foreign: reader.ContainsHash,
			sync:    f.Sync, checkpoint: func() error { return f.Checkpoint(context.Background()) },
			afterwards: func() layout.View { return newestState(w) }, lengthAtLast: f.Len,
		})
	})
	t.Run("heap", func(t *testing.T) {
		w := mustWriter(t, newMemoryVolume(t, p, lines), logBytes)
		view := viewOf(w)
		testConcurrent(t, shared{
			table:  w.Table(),
			insert: w.Insert, insertAll: func(hashes []uint64) (n int, err error) { err = w.InsertAll(hashes, nil, &n); return n, err }, delete: w.Delete,
			contains: w.Contains, containsAll: w.ContainsAll,
			count:   w.Count,
			foreign: func(h uint64) bool { return layout.Contains(w.Table(), view, h) },
			sync:    func() error { return w.Sync(false, 0) }, checkpoint: w.Checkpoint,
			afterwards: func() layout.View { return newestState(w) }, lengthAtLast: w.Len,
		})
	})
}

func testConcurrent(t *testing.T, s shared) {
	rng := seeded(t, 1)
	operations := 30_000
	if testing.Short() {
		operations = 2500
	}
	slots := int(s.table.Lines()) * layout.SlotsPerLine(s.table.Kind(), s.table.Params())
	m := newKeySet(s.table)
	insert := func(h uint64) {
		if err := s.insert(h); err != nil {
			t.Fatal(err)
		}
		m.apply(change{h, 1})
	}
	stay := make([]uint64, slots/2)
	for i := range stay {
		stay[i] = rng.Uint64()
		insert(stay[i])
	}
	if err := s.sync(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	until := func(f func(rng *rand.Rand) error) {
		all.Add(1)
		seed := rng.Uint64()
		go func() {
			defer all.Done()
			rng := rand.New(rand.NewPCG(seed, 2))
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(rng); err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
			}
		}()
	}
	lost := errors.New("a key that stays is not found")
	for _, contains := range []func(uint64) bool{s.contains, s.contains, s.foreign, s.foreign} {
		until(func(rng *rand.Rand) error {
			if h := stay[rng.IntN(len(stay))]; !contains(h) {
				return lost
			}
			return nil
		})
	}
	until(func(rng *rand.Rand) error {
		found := make([]bool, 100)
		i := rng.IntN(len(stay) - len(found))
		s.containsAll(stay[i:i+len(found)], found)
		for _, ok := range found {
			if !ok {
				return lost
			}
		}
		return nil
	})
	until(func(rng *rand.Rand) error {
		if s.count(stay[rng.IntN(len(stay))]) == 0 {
			return lost
		}
		return nil
	})
	syncs, checkpoints := make(chan struct{}), make(chan struct{})
	for signal, call := range map[chan struct{}]func() error{syncs: s.sync, checkpoints: s.checkpoint} {
		until(func(*rand.Rand) error {
			select {
			case <-signal:
				return call()
			case <-done:
				return nil
			}
		})
	}
	// Insert a few equal keys in batches; they stay, too.
	var batches sync.WaitGroup
	batches.Add(1)
	batch := make([]uint64, 8)
	go func() {
		defer batches.Done()
		for i := range batch {
			batch[i] = stay[i%4]
		}
		for range 20 {
			if _, err := s.insertAll(batch); err != nil {
				t.Error(err)
			}
		}
	}()
	// The rest of the table comes and goes; now and then it is overfull.
	var churn []uint64
	high := slots/2 + 300
	for i := range operations {
		// Not more often, or all wait for one lock; and not while one is in progress.
		for signal, every := range map[chan struct{}]int{syncs: 50, checkpoints: 500} {
			if i%every != 0 {
				continue
			}
			select {
			case signal <- struct{}{}:
			default:
			}
		}
		if len(churn) < high && rng.IntN(2) == 0 {
			h := rng.Uint64()
			insert(h)
			churn = append(churn, h)
		} else if len(churn) > 0 {
			i := rng.IntN(len(churn))
			if ok, err := s.delete(churn[i]); !ok || err != nil {
				t.Fatalf("delete: %t, %v", ok, err)
			}
			m.apply(change{churn[i], -1})
			churn[i] = churn[len(churn)-1]
			churn = churn[:len(churn)-1]
		}
		if len(churn) == 0 || rng.IntN(5000) == 0 {
			for len(churn) < high {
				h := rng.Uint64()
				insert(h)
				churn = append(churn, h)
			}
		}
	}
	batches.Wait()
	close(done)
	all.Wait()
	for range 20 {
		for _, h := range batch {
			m.apply(change{h, 1})
		}
	}
	if s.lengthAtLast() != uint64(len(m.hashes)) {
		t.Errorf("%d keys, not %d", s.lengthAtLast(), len(m.hashes))
	}
	m.check(t, s.afterwards())
	if err := s.sync(); err != nil {
		t.Fatal(err)
	}
	for _, h := range m.hashes {
		if !s.contains(h) || !s.foreign(h) {
			t.Fatalf("%+v is lost", s.table.Split(h))
		}
	}
}

// TestUniqueOnce: if several goroutines insert the same keys, exactly one adds each key.
func TestUniqueOnce(t *testing.T) {
	f, _ := newLines(t, compact26, 500, Options{LogBytes: wal.MinBytes})
	const keys = 5000
	var added atomic.Uint64
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range uint64(keys) {
				ok, err := f.InsertUnique(binary.LittleEndian.AppendUint64(nil, i))
				if err != nil {
					t.Error(err)
				}
				if ok {
					added.Add(1)
				}
			}
		}()
	}
	all.Wait()
	// Two of these keys that look the same count as one.
	if n := added.Load(); n > keys || n < keys-5 || f.Len() != n {
		t.Errorf("%d of %d keys were added, the length is %d", n, keys, f.Len())
	}
}
