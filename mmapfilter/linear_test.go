package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// A call is one call of a client of a filter.
type call struct {
	kind callKind
	key  uint64
}

type callKind int

const (
	callInsert callKind = iota
	callUnique
	callDelete
	callLookup
)

// An answer is the result of a call: inserted, added, deleted or "maybe"; or refused, with
// ErrFull.
type answer struct{ ok, full bool }

// keyModel says which answers are right when the calls for one key are put in an order. The
// state is the number of copies of the key.
var keyModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (byKey [][]porcupine.Operation) {
		index := map[uint64]int{}
		for _, o := range history {
			i, ok := index[o.Input.(call).key]
			if !ok {
				i = len(byKey)
				index[o.Input.(call).key], byKey = i, append(byKey, nil)
			}
			byKey[i] = append(byKey[i], o)
		}
		return byKey
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		n, a := state.(int), output.(answer)
		if a.full {
			return true, n
		}
		switch input.(call).kind {
		case callInsert:
			return true, n + 1
		case callUnique:
			return a.ok == (n == 0), max(n, 1)
		case callDelete:
			return a.ok == (n > 0), max(n-1, 0)
		}
		return a.ok || n == 0, n // a lookup may always say "maybe"
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v %+v", input, output) },
}

// A target is a filter under test by TestLinearizable.
type target struct {
	w          *writer.Writer
	insert     func(hash uint64) error
	unique     func(hash uint64) (bool, error)
	delete     func(hash uint64) (bool, error)
	contains   func(hash uint64) bool
	sync       func() error
	checkpoint func() error
}

func heapTarget(t *testing.T, lines uint64, logBytes int64) target {
	w := mustWriter(t, compact26.Volume(t, lines), logBytes)
	return target{
		w: w, insert: w.Insert, unique: w.InsertUnique, delete: w.Delete,
		contains: eachWay(w.Contains, w.ContainsAll, w.Count),
		sync:     func() error { return w.Sync() }, checkpoint: w.Checkpoint,
	}
}

// eachWay returns a lookup that is one by itself, one in a batch, and one that counts, in turns.
func eachWay(contains func(uint64) bool, containsAll func([]uint64, []bool), count func(uint64) uint64) func(hash uint64) bool {
	var turn atomic.Int64
	return func(hash uint64) bool {
		switch turn.Add(1) % 3 {
		case 0:
			found := make([]bool, 2)
			containsAll([]uint64{hash, hash + 1}, found)
			return found[0]
		case 1:
			return count(hash) > 0
		}
		return contains(hash)
	}
}

func fileTarget(t *testing.T, lines uint64, logBytes int64) target {
	f, _ := newLines(t, compact26, lines, Options{LogBytes: logBytes})
	w := writerOf(f)
	w.Work = f.open.Load().work
	return target{
		w: w, insert: f.InsertHash, unique: w.InsertUnique, delete: f.DeleteHash,
		contains: eachWay(f.ContainsHash, f.ContainsHashes, w.Count),
		sync:     f.Sync, checkpoint: func() error { return f.Checkpoint(context.Background()) },
	}
}

// do makes one call.
func (f *target) do(c call) (a answer, err error) {
	a.ok = true
	switch c.kind {
	case callInsert:
		err = f.insert(c.key)
	case callUnique:
		a.ok, err = f.unique(c.key)
	case callDelete:
		a.ok, err = f.delete(c.key)
	default:
		a.ok = f.contains(c.key)
	}
	if errors.Is(err, ErrFull) {
		return answer{full: true}, nil
	}
	return a, err
}

// A recording is the calls of clients, with their answers. Its clock counts calls and returns.
type recording struct {
	*target
	clock atomic.Int64
	mu    struct {
		sync.Mutex
		history []porcupine.Operation
	}
}

// client makes calls and records their answers.
func (r *recording) client(t *testing.T, id int, calls func(do func(call) answer)) {
	var history []porcupine.Operation
	calls(func(c call) answer {
		begun := r.clock.Add(1)
		a, err := r.do(c)
		history = append(history, porcupine.Operation{ClientId: id, Input: c, Call: begun, Output: a, Return: r.clock.Add(1)})
		if err != nil {
			t.Error(err)
		}
		return a
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.history = append(r.mu.history, history...)
}

// round has clients call a filter for a few keys at once, and at the end one of them alone. Some
// keys come and go, one is inserted by InsertUnique, and one is never inserted.
func (r *recording) round(t *testing.T, rng *rand.Rand) {
	const clients, calls, keys = 4, 20, 3
	var hash [keys + 2]uint64
	for i := range hash {
		hash[i] = rng.Uint64()
	}
	unique, never := hash[keys], hash[keys+1]
	var all crew
	for id := range clients {
		rng := rand.New(rand.NewPCG(rng.Uint64(), uint64(id)))
		all.Go(func() {
			r.client(t, id, func(do func(call) answer) {
				for range calls {
					switch n := rng.IntN(12); {
					case n == 0:
						do(call{callUnique, unique})
					case n == 1:
						do(call{callLookup, unique})
					case n == 2:
						do(call{callLookup, never})
					default:
						kind := [...]callKind{callInsert, callDelete, callLookup}[n%3]
						do(call{kind, hash[rng.IntN(keys)]})
					}
				}
			})
		})
	}
	all.Wait()
	r.client(t, 0, func(do func(call) answer) {
		for _, h := range hash[:keys] {
			do(call{callLookup, h})
			do(call{callInsert, h})
			do(call{callLookup, h})
			for n := 0; n < clients*calls && do(call{callDelete, h}).ok; n++ {
				do(call{callLookup, h})
			}
			do(call{callLookup, h})
		}
		do(call{callUnique, unique})
		do(call{callUnique, unique})
		do(call{callLookup, unique})
	})
	if _, err := r.delete(unique); err != nil { // delete in the filter only: the history of the key is over
		t.Error(err)
	}
}

// refused returns a key whose calls have no order that the model allows.
func (r *recording) refused() (ok bool, key uint64) {
	for _, history := range keyModel.Partition(r.mu.history) {
		if !porcupine.CheckOperations(keyModel, history) {
			return true, history[0].Input.(call).key
		}
	}
	return false, 0
}

// beside makes other items come and go all the time, in a filter that they fill, and commits and
// checkpoints, until the caller calls end. One key stays: other processes must find it.
func beside(t *testing.T, f target, most int, seed uint64) (end func()) {
	done := make(chan struct{})
	var all crew
	until := func(work func() error) {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	var others []uint64
	fill := func() error {
		for len(others) < most {
			h := rng.Uint64()
			if err := f.insert(h); errors.Is(err, ErrFull) {
				break
			} else if err != nil {
				return err
			}
			others = append(others, h)
		}
		return nil
	}
	stays := rng.Uint64()
	must(t, errors.Join(f.insert(stays), f.sync(), fill()))
	view, table := viewOf(f.w), f.w.Table()
	until(func() error {
		if !layout.Contains(table, view, stays) {
			return errors.New("another process does not find the key that stays")
		}
		time.Sleep(10 * time.Microsecond)
		return nil
	})
	changed := make(chan struct{}, 1) // so that an idle filter is left alone
	until(func() error {
		select {
		case changed <- struct{}{}:
		default:
		}
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(others))
			if ok, err := f.delete(others[i]); !ok || err != nil {
				return fmt.Errorf("delete: %t, %w", ok, err)
			}
			others[i] = others[len(others)-1]
			others = others[:len(others)-1]
		}
		return fill()
	})
	commits := 0
	until(func() error {
		select {
		case <-changed:
		case <-done:
			return nil
		}
		if commits++; commits%50 == 0 {
			return f.checkpoint()
		}
		return f.sync()
	})
	return func() {
		close(done)
		all.Wait()
	}
}

// TestLinearizable covers C1, C3, C6, C7 and R1 for lookups of the writing process. Many
// goroutines insert, delete and look up a few keys, in a filter whose other items are moved,
// committed and checkpointed all the time. For each key there must be an order of the calls,
// each at an instant between its start and its return, in which the answers are right.
func TestLinearizable(t *testing.T) {
	const lines, logBytes = 8, 128 << 10
	slots := lines * 16
	for name, open := range map[string]func(*testing.T, uint64, int64) target{"file": fileTarget, "heap": heapTarget} {
		for load, most := range map[string]int{"full lines": slots - 4, "full stash": slots + 2*layout.StashEntries} {
			t.Run(name+"/"+load, func(t *testing.T) {
				rounds, rng := small(100, 30), seeded(t, 1)
				f := open(t, lines, logBytes)
				end := beside(t, f, most, rng.Uint64())
				r := &recording{target: &f}
				said, counts := false, ""
				for turns := 0; !said && turns < 20; turns++ { // the scheduler decides, so try again
					for range rounds {
						r.round(t, rng)
					}
					said, counts = r.count(load == "full stash")
				}
				end()
				if t.Log(counts); !said {
					t.Error("the answers have said nothing")
				}
				if refused, key := r.refused(); refused {
					t.Errorf("the answers for key %x are those of no order of its calls:%s", key, r.describe(key))
				}
			})
		}
	}
}

// count reports whether the answers mean anything: a lookup may always say "maybe", and a full
// filter may refuse everything.
func (r *recording) count(filled bool) (said bool, counts string) {
	puts, n := map[uint64]bool{}, map[string]int{}
	for _, o := range r.mu.history {
		c := o.Input.(call)
		puts[c.key] = puts[c.key] || c.kind != callLookup
	}
	for _, o := range r.mu.history {
		c, a := o.Input.(call), o.Output.(answer)
		switch {
		case a.full:
			n["refused"]++
		case c.kind == callDelete && a.ok:
			n["deleted"]++
		case c.kind == callUnique && a.ok:
			n["added"]++
		case c.kind == callLookup && !puts[c.key] && a.ok:
			n["maybe, never in"]++
		case c.kind == callLookup && !puts[c.key]:
			n["absent, never in"]++
		case c.kind == callLookup && !a.ok:
			n["absent"]++
		}
	}
	commits, checkpoints := r.w.Protocol().Counts()
	said = 9*n["maybe, never in"] <= n["absent, never in"] && n["absent"] > 0 && n["deleted"] > 0 && n["added"] > 0 && commits > 0 && checkpoints > 0 && (n["refused"] > 0) == filled
	return said, fmt.Sprintf("%d calls: %v; %d commits, %d checkpoints", len(r.mu.history), n, commits, checkpoints)
}

// describe lists the calls for a key.
func (r *recording) describe(key uint64) (text string) {
	for _, o := range r.mu.history {
		if o.Input.(call).key == key {
			text += fmt.Sprintf("\n  %d to %d: client %d, %s", o.Call, o.Return, o.ClientId, keyModel.DescribeOperation(o.Input, o.Output))
		}
	}
	return text
}

// TestLinearizableRefuses checks that deliberately wrong filters are refused.
func TestLinearizableRefuses(t *testing.T) {
	wrong := map[string]func(f *target){
		"nothing": func(*target) {},
		"a lookup of how it was": func(f *target) {
			then, table := newestState(f.w), f.w.Table()
			f.contains = func(h uint64) bool { return layout.Contains(table, &then, h) }
		},
		"a lookup of what is committed": func(f *target) {
			view, table := viewOf(f.w), f.w.Table()
			f.contains = func(h uint64) bool { return layout.Contains(table, view, h) }
		},
		"an insert that is lost": func(f *target) { f.insert = func(uint64) error { return nil } },
		"an insert that puts in one copy": func(f *target) {
			insert := f.insert
			f.insert = func(h uint64) error {
				if f.contains(h) {
					return nil
				}
				return insert(h)
			}
		},
		"a delete of nothing": func(f *target) {
			f.delete = func(h uint64) (bool, error) { return f.contains(h), nil }
		},
		"an insert that is always unique": func(f *target) {
			insert := f.insert
			f.unique = func(h uint64) (bool, error) { return true, insert(h) }
		},
	}
	for name, spoil := range wrong {
		t.Run(name, func(t *testing.T) {
			f := heapTarget(t, 8, wal.MinBytes)
			spoil(&f)
			r := &recording{target: &f}
			rng := seeded(t, 1)
			for range 3 {
				r.round(t, rng)
			}
			if refused, _ := r.refused(); refused != (name != "nothing") {
				t.Errorf("it is refused: %t", refused)
			}
		})
	}
}

// TestUniqueOnce: if several goroutines insert the same keys, exactly one adds each key.
func TestUniqueOnce(t *testing.T) {
	f, _ := newLines(t, compact26, 500, Options{LogBytes: wal.MinBytes})
	const keys = 5000
	var added atomic.Uint64
	var all crew
	for range 4 {
		all.Go(func() {
			for key := range numbers(0, keys) {
				ok, err := f.InsertUnique(key)
				if err != nil {
					t.Error(err)
				}
				if ok {
					added.Add(1)
				}
			}
		})
	}
	all.Wait()
	// Two of these keys that look the same count as one.
	if n := added.Load(); n > keys || n < keys-5 || f.Len() != n {
		t.Errorf("%d of %d keys were added, the length is %d", n, keys, f.Len())
	}
}
