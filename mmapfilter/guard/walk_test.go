package guard

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
)

// A disk has a store with versions, such as Badger, and the filter beside it. Each step that a guard
// does on them may be the last before a crash.
type disk struct {
	steps     int
	crash     int // the number of the step that does not happen
	soon      int // the number of steps from meanwhile to the crash
	meanwhile func()
	store     ordered
	filter    *smallFilter
	random    uint64
}

var errCrash = errors.New("crash")

// newDisk returns a disk with a store and a filter. The filter may be nil.
func newDisk(r *rows, filter *smallFilter) *disk {
	d := &disk{filter: filter}
	r.write = func(Changes) { d.step() }
	d.store = ordered{rows: r, position: d.step}
	return d
}

// step is called before each step.
func (d *disk) step() {
	if d.steps++; d.steps == d.crash {
		panic(errCrash)
	}
	if do := d.meanwhile; do != nil && d.steps == d.crash-d.soon {
		d.meanwhile = nil
		do()
	}
}

// reopen returns the store after a crash, which loses the transactions that are not durable, unless
// keep is set. The next version is one more than the greatest version in the store, so versions of lost
// transactions, and of deletes that were purged, are reused.
func (r *rows) reopen(keep bool) *rows {
	c := &rows{rows: maps.Clone(r.durable)}
	if keep || c.rows == nil {
		c.rows = map[string]row{}
	}
	if keep {
		maps.Copy(c.rows, r.rows)
	}
	c.durable = maps.Clone(c.rows)
	for _, r := range c.rows {
		c.last = max(c.last, r.version)
	}
	return c
}

func (d *disk) options() *Options {
	o := (&Options{Capacity: 4}).WithDefaults("f", Rebuild)
	random := func() uint64 { d.random++; return d.random<<baseBits | d.random }
	return simulate(o, &d.filter, math.MaxUint64, random, d.step)
}

// live uses a guard as a program does, up to the crash at step number crash. If soon is not 0, a
// transaction of another goroutine comes soon steps before the crash.
func (d *disk) live(t *testing.T, life, crash, soon int) (crashed bool) {
	defer func() {
		if r := recover(); r != nil && r != errCrash {
			panic(r)
		} else if r != nil {
			crashed = true
		}
	}()
	d.steps, d.crash, d.soon, d.meanwhile = 0, crash, soon, nil
	o := d.options()
	g, err := Open(d.store, o)
	must(t, err)
	d.mustShow(t, g)
	put := func(key string) {
		tx := g.Begin()
		tx.Put([]byte(key))
		c := tx.Prepare()
		d.store.commit(c, key, true)
		tx.Done(Committed)
	}
	if soon > 0 {
		d.meanwhile = func() { put(fmt.Sprint(life, "meanwhile")) }
	}
	put(fmt.Sprint(life, "a"))
	put(fmt.Sprint(life, "b"))
	o.Hooks.Tick()
	put(fmt.Sprint(life, "c"))
	tx := g.Begin()
	tx.Delete(fmt.Append(nil, life, "b"))
	d.store.commit(tx.Prepare(), fmt.Sprint(life, "b"), false)
	tx.Done(Committed)
	must(t, g.Rebuild(t.Context()))
	put(fmt.Sprint(life, "d"))
	d.mustShow(t, g)
	o.Hooks.Tick()
	put(fmt.Sprint(life, "e"))
	must(t, g.Close())
	return false
}

func (d *disk) mustShow(t *testing.T, g *Guard) {
	t.Helper()
	if keys := d.store.hidden(g); len(keys) > 0 {
		t.Fatalf("%q is hidden; %+v", keys[0], g.Stats())
	}
}

// copied returns the disk after a crash, which loses what the filter has done since its last sync. keep
// says that no transaction is lost.
func (d *disk) copied(keep bool) *disk {
	c := newDisk(d.store.reopen(keep), d.filter.after(0))
	c.random = d.random
	return c
}

// mustOpen opens the store, and checks that no key is hidden.
func (d *disk) mustOpen(t *testing.T) {
	t.Helper()
	d.crash, d.meanwhile = 0, nil
	g, err := Open(d.store, d.options())
	must(t, err)
	d.mustShow(t, g)
}

// TestEveryCrash covers C9 and G2 with positions: it crashes in every step of a guard's life, and again
// in every step of the next guard's life, with and without the transactions that were not durable. Then
// it opens the store with its filter, or with the filter of the first crash.
func TestEveryCrash(t *testing.T) {
	lives := 0
	for first, crashed := 1, true; crashed; first++ {
		d := newDisk(newRows(), nil)
		crashed = d.live(t, 1, first, 0)
		for _, keep := range []bool{false, true} {
			for second, crashed := 1, true; crashed; second++ {
				after := d.copied(keep)
				crashed = after.live(t, 2, second, 0)
				for _, keep := range []bool{false, true} {
					after.copied(keep).mustOpen(t)
					older := after.copied(keep)
					older.filter = d.filter.after(0)
					older.mustOpen(t)
					lives += 2
				}
			}
		}
	}
	t.Logf("%d lives", lives)
}

// TestEveryMeanwhile covers G2 with positions: a transaction comes in any step, and a crash soon after
// it.
func TestEveryMeanwhile(t *testing.T) {
	for soon := 1; soon < 8; soon++ {
		for crash, crashed := 1, true; crashed; crash++ {
			d := newDisk(newRows(), nil)
			crashed = d.live(t, 1, crash, soon)
			for _, keep := range []bool{false, true} {
				d.copied(keep).mustOpen(t)
			}
		}
	}
}
