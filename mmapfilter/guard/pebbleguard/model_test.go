package pebbleguard

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var (
	modelSteps = flag.Int("modelsteps", 400, "steps of each goroutine of TestModel")
	modelSeed  = flag.Uint64("modelseed", 0, "seed of TestModel; 0 is a random one")
)

// A model runs random operations on a store from many goroutines. Each goroutine has keys of its own,
// of which it knows what they should be, and there are keys that all write to.
type model struct {
	t      *testing.T
	d      *DB
	ctx    context.Context
	checks atomic.Int64
	failed atomic.Bool
}

const (
	modelWorkers = 6
	modelKeys    = 120 // of a worker, and that all write to
)

func modelKey(worker, i int) []byte { return fmt.Appendf(nil, "%02d/%04d", worker, i) }

// A worker knows what its keys should be: "" is that there is none.
type worker struct {
	*model
	rng  *rand.Rand
	id   int
	keys [modelKeys]string
	// many are keys that were overwritten: SingleDelete is not defined for them any more.
	many [modelKeys]bool
	step int
}

func (w *worker) errorf(format string, args ...any) {
	w.failed.Store(true)
	w.t.Errorf("worker %d, step %d: %s; %+v", w.id, w.step, fmt.Sprintf(format, args...), w.d.GuardStats())
}

func (w *worker) must(err error) {
	if err != nil {
		w.errorf("%v", err)
	}
}

// look checks a key that a worker knows.
func (w *worker) look(get func(key []byte) (string, error), i int, want string) {
	got, err := get(modelKey(w.id, i))
	w.checks.Add(1)
	if err == pebble.ErrNotFound {
		got, err = "", nil
	}
	if err != nil || got != want {
		w.errorf("key %d is %q, not %q: %v", i, got, want, err)
	}
}

func (w *worker) get(key []byte) (string, error) {
	return text(w.d.Get(key))
}

// text returns a value as a string.
func text(v []byte, c io.Closer, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s := string(v) // v is gone once c is closed
	return s, c.Close()
}

func (w *worker) value() string { return fmt.Sprintf("%d", w.step) }

// add adds some operations to a batch. It returns what the keys will be.
func (w *worker) add(b *Batch) (keys [modelKeys]string, many [modelKeys]bool) {
	keys, many = w.keys, w.many
	for range 1 + w.rng.IntN(6) {
		i := w.rng.IntN(modelKeys)
		k := modelKey(w.id, i)
		var err error
		switch w.rng.IntN(10) {
		case 0, 1, 2, 3:
			err = b.Set(k, []byte(w.value()), nil)
			many[i] = many[i] || keys[i] != ""
			keys[i] = w.value()
		case 4:
			err = b.Merge(k, []byte(w.value()), nil)
			keys[i], many[i] = keys[i]+w.value(), true
		case 5, 6:
			err = b.Delete(k, nil)
			keys[i] = ""
		case 7:
			err = b.DeleteSized(k, 1, nil)
			keys[i] = ""
		case 8:
			if keys[i] != "" && !many[i] {
				err = b.SingleDelete(k, nil)
				keys[i] = ""
			}
		case 9:
			to := min(modelKeys, i+1+w.rng.IntN(10))
			err = b.DeleteRange(k, modelKey(w.id, to), nil)
			for j := i; j < to; j++ {
				keys[j] = ""
			}
		}
		w.must(err)
	}
	if w.rng.IntN(2) == 0 { // what all write to
		k := modelKey(modelWorkers, w.rng.IntN(modelKeys))
		if w.rng.IntN(2) == 0 {
			w.must(b.Set(k, []byte(w.value()), nil))
		} else {
			w.must(b.Delete(k, nil))
		}
	}
	return keys, many
}

func (w *worker) do() {
	d := w.d
	switch r := w.rng.IntN(40); {
	case r < 20:
		w.commit()
	case r < 22:
		i := w.rng.IntN(modelKeys)
		w.must(d.Set(modelKey(w.id, i), []byte(w.value()), pebble.NoSync))
		w.keys[i], w.many[i] = w.value(), true
	case r < 24:
		i := w.rng.IntN(modelKeys)
		w.must(d.Delete(modelKey(w.id, i), pebble.NoSync))
		w.keys[i] = ""
	case r < 28:
		w.snapshot()
	case r == 28:
		w.ingest()
	case r == 29:
		from := w.rng.IntN(modelKeys)
		to := min(modelKeys, from+10)
		w.must(d.Excise(w.ctx, pebble.KeyRange{Start: modelKey(w.id, from), End: modelKey(w.id, to)}))
		for i := from; i < to; i++ {
			w.keys[i] = ""
		}
	case r == 30 && w.rng.IntN(4) == 0:
		w.must(d.Guard().Rebuild(w.ctx))
	case r == 31:
		w.must(d.Guard().Work())
	case r == 32 && w.rng.IntN(4) == 0:
		w.must(d.Flush())
	case r == 33 && w.rng.IntN(8) == 0:
		w.must(d.Compact(w.ctx, modelKey(0, 0), modelKey(modelWorkers+1, 0), false))
	default:
		for i, want := range w.keys {
			w.look(w.get, i, want)
		}
	}
}

// commit commits a batch, or drops it.
func (w *worker) commit() {
	b := w.d.NewIndexedBatch()
	if w.rng.IntN(2) == 0 {
		b = w.d.NewBatch()
	}
	defer func() { w.must(b.Close()) }()
	keys, many := w.add(b)
	if b.Indexed() {
		get := func(key []byte) (string, error) {
			return text(b.Get(key))
		}
		for range 10 {
			i := w.rng.IntN(modelKeys)
			w.look(get, i, keys[i])
		}
	}
	switch w.rng.IntN(8) {
	case 0: // a rollback
		return
	case 1: // as another one's
		other := w.d.NewBatch()
		defer func() { w.must(other.Close()) }()
		w.must(other.Apply(b, nil))
		w.must(other.Commit(pebble.NoSync))
	case 2:
		other := w.d.NewBatch()
		defer func() { w.must(other.Close()) }()
		w.must(other.SetRepr(b.Repr()))
		w.must(other.Commit(pebble.NoSync))
	case 3:
		w.must(w.d.ApplyNoSyncWait(b, pebble.Sync))
		w.must(b.SyncWait())
	case 4:
		w.must(b.Commit(pebble.Sync))
	default:
		w.must(w.d.Apply(b, pebble.NoSync))
	}
	w.keys, w.many = keys, many
}

// snapshot reads what was there before deletes and rebuilds.
func (w *worker) snapshot() {
	s, then := w.d.NewSnapshot(), w.keys
	get := func(key []byte) (string, error) {
		return text(s.Get(key))
	}
	for i := range w.keys {
		if w.rng.IntN(3) == 0 {
			w.must(w.d.Delete(modelKey(w.id, i), pebble.NoSync))
			w.keys[i] = ""
		}
	}
	for range w.rng.IntN(3) {
		w.commit()
	}
	w.must(w.d.Guard().Work())
	if w.rng.IntN(8) == 0 {
		w.must(w.d.Guard().Rebuild(w.ctx))
	}
	for i, want := range then {
		w.look(get, i, want)
	}
	w.must(s.Close())
}

// ingest ingests a file of sets and tombstones, over a range that is excised now and then.
func (w *worker) ingest() {
	from := w.rng.IntN(modelKeys)
	to := min(modelKeys, from+20)
	excise := w.rng.IntN(2) == 0
	for i := from; excise && i < to; i++ {
		w.keys[i] = ""
	}
	path := table(w.t, fmt.Sprint(w.step), func(f *sstable.Writer) (err error) {
		for i := from; i < to && err == nil; i++ {
			switch w.rng.IntN(4) {
			case 0:
				err = f.Delete(modelKey(w.id, i))
				w.keys[i] = ""
			case 1, 2:
				err = f.Set(modelKey(w.id, i), []byte(w.value()))
				w.keys[i], w.many[i] = w.value(), true
			}
		}
		return err
	})
	if excise {
		_, err := w.d.IngestAndExcise(w.ctx, []string{path}, nil, nil, pebble.KeyRange{Start: modelKey(w.id, from), End: modelKey(w.id, to)})
		w.must(err)
	} else {
		w.must(w.d.Ingest(w.ctx, []string{path}))
	}
}

// watch looks for keys that are hidden while all workers run: what an iterator has, the guard lets
// pass in the view of that instant.
func (m *model) watch(done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		default:
		}
		if err := hiddenNow(m.d); err != nil {
			return err
		}
	}
}

// TestModel checks a guarded store against maps, and opens it again in between.
func TestModel(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for _, deletes := range bothModes {
		t.Run(deletes.String(), func(t *testing.T) {
			t.Logf("seed %d", seed)
			dir := t.TempDir()
			m := &model{t: t, ctx: context.Background()}
			workers := make([]*worker, modelWorkers)
			for i := range workers {
				workers[i] = &worker{model: m, rng: rand.New(rand.NewPCG(seed, uint64(i))), id: i}
			}
			for round := range 3 {
				o := newest()
				o.MemTableSize = 64 << 10
				m.d = mustOpen(t, dir, o, &guard.Options{Capacity: 100, Deletes: deletes, CommitInterval: 3 * time.Millisecond})
				var group sync.WaitGroup
				done, watched := make(chan struct{}), make(chan error)
				go func() { watched <- m.watch(done) }()
				for _, w := range workers {
					group.Add(1)
					go func() {
						defer group.Done()
						for range *modelSteps / 3 {
							if w.step++; m.failed.Load() {
								return
							}
							w.do()
						}
					}()
				}
				group.Wait()
				close(done)
				must(t, <-watched)
				for _, w := range workers {
					for i, want := range w.keys {
						w.look(w.get, i, want)
					}
				}
				if _, err := hidden(m.d); err != nil {
					t.Fatal(err)
				}
				s := m.d.GuardStats()
				t.Logf("round %d: %d checks, %+v", round, m.checks.Load(), s)
				must(t, m.d.Close())
			}
		})
	}
}
