package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// A target is a filter under test by TestCallers.
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

// eachWay returns a function that looks a hash up alone, in a batch, or by its count, in turns.
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

// draw returns a hash with an odd or an even fingerprint. Hashes of different kinds are never in one
// class.
func (f *target) draw(rng *rand.Rand, odd uint32) uint64 {
	for {
		if h := rng.Uint64(); f.w.Table().Split(h).Fp%2 == odd {
			return h
		}
	}
}

// A caller inserts, deletes and looks up keys of its own, so it knows every answer. It also inserts and
// deletes copies of a key that all callers share, and of which the filter always has a copy.
type caller struct {
	*testing.T
	*target
	rng                    *rand.Rand
	shared                 uint64
	absent, maybe, refused int // answers for keys that are not in the filter; inserts refused as ErrFull
}

// put inserts a key. It reports whether there was room.
func (c *caller) put(hash uint64) bool {
	err := c.insert(hash)
	if errors.Is(err, ErrFull) {
		c.refused++
	} else if err != nil {
		c.Error(err)
	}
	return err == nil
}

// take deletes a key. there says whether the filter has a copy of it.
func (c *caller) take(hash uint64, there bool) {
	if ok, err := c.delete(hash); ok != there || err != nil {
		c.Errorf("the filter had a copy: %t; one was deleted: %t, %v", there, ok, err)
	}
}

func (c *caller) mustFind(hash uint64) {
	if !c.contains(hash) {
		c.Error("a key is absent")
	}
}

// ask looks up a key that is not in the filter. Any answer is right, so ask only counts.
func (c *caller) ask(hash uint64) {
	if c.contains(hash) {
		c.maybe++
	} else {
		c.absent++
	}
}

// round inserts some copies of a key, and deletes them again.
func (c *caller) round() {
	hash, copies := c.draw(c.rng, 1), 0
	c.ask(hash)
	for range c.rng.IntN(4) {
		if c.put(hash) {
			copies++
		}
	}
	switch added, err := c.unique(hash); {
	case added == (copies == 0) && err == nil:
		copies = max(copies, 1)
	case copies > 0 || !errors.Is(err, ErrFull):
		c.Errorf("with %d copies, InsertUnique: %t, %v", copies, added, err)
	}
	if c.put(c.shared) {
		c.mustFind(c.shared)
		c.take(c.shared, true)
	}
	for ; copies > 0; copies-- {
		c.mustFind(hash)
		c.take(hash, true)
	}
	c.mustFind(c.shared)
	c.take(hash, false)
	c.ask(hash)
}

// TestCallers covers C1, C3, C6, C7 and R1 for lookups of the writing process. Many goroutines insert,
// delete and look up keys, while other items of the filter are moved, committed and checkpointed all the
// time. Each goroutine must get the answers that follow from its own operations.
func TestCallers(t *testing.T) {
	const lines, logBytes = 8, 128 << 10
	slots := lines * 16
	for name, open := range map[string]func(*testing.T, uint64, int64) target{"file": fileTarget, "heap": heapTarget} {
		for load, most := range map[string]int{"full lines": slots - 4, "full stash": slots + 2*layout.StashEntries} {
			t.Run(name+"/"+load, func(t *testing.T) {
				rng := seeded(t, 1)
				f := open(t, lines, logBytes)
				callers := make([]*caller, 4)
				for i := range callers {
					callers[i] = &caller{T: t, target: &f, rng: rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))}
				}
				shared := f.draw(rng, 1)
				must(t, f.insert(shared))
				end := beside(t, f, most, rng.Uint64())
				said, counts := false, ""
				for turns := 0; !said && turns < 20; turns++ { // what happens depends on the scheduler
					var all crew
					for _, c := range callers {
						c.shared = shared
						all.Go(func() {
							for range small(300, 100) {
								c.round()
							}
						})
					}
					all.Wait()
					var absent, maybe, refused int
					for _, c := range callers {
						absent, maybe, refused = absent+c.absent, maybe+c.maybe, refused+c.refused
					}
					commits, checkpoints := f.w.Protocol().Counts()
					said = 9*maybe <= absent && commits > 0 && checkpoints > 0 && (refused > 0) == (load == "full stash")
					counts = fmt.Sprintf("%d times absent, %d maybe, %d refused; %d commits, %d checkpoints", absent, maybe, refused, commits, checkpoints)
				}
				end()
				if t.Log(counts); !said {
					t.Error("too many answers are maybe, or commits, checkpoints or refused inserts are missing")
				}
			})
		}
	}
}

// beside fills a filter with other items. Until the caller calls end, it deletes and inserts such items,
// commits and makes checkpoints. One key stays, which other processes must find.
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
			h := f.draw(rng, 0)
			if err := f.insert(h); errors.Is(err, ErrFull) {
				break
			} else if err != nil {
				return err
			}
			others = append(others, h)
		}
		return nil
	}
	stays := f.draw(rng, 0)
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
