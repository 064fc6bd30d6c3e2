package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// A disk has a store with versions, such as Badger, and the filter beside it. Each step that a guard
// does on them may be the last before a crash.
type disk struct {
	steps     int
	crash     int // the number of the step that does not happen
	soon      int // the number of steps from meanwhile to the crash
	meanwhile func()
	store     ordered
	filter    *diskFilter
	random    uint64
}

var errCrash = errors.New("crash")

// newDisk returns a disk with a store and a filter. The filter may be nil.
func newDisk(r *rows, filter *diskFilter) *disk {
	d := &disk{filter: filter}
	r.write = func(Changes) { d.step() }
	d.store = ordered{rows: r, position: d.step}
	if filter != nil {
		filter.disk = d
	}
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

// A diskFilter is an exact filter. A crash sets it back to what it was at the last sync.
type diskFilter struct {
	disk      *disk
	name      string
	has       map[uint64]bool
	durable   map[uint64]bool
	seq       uint64
	room      int
	instant   bool // a rebuild is under way and its instant has passed
	sinceThen []uint64
}

func (f *diskFilter) Hash(key []byte) uint64          { return xxh3.Hash(key) | 1 }
func (f *diskFilter) Normalisation() string           { return f.name }
func (f *diskFilter) ContainsHash(h uint64) bool      { return f.has[h] }
func (f *diskFilter) Len() uint64                     { return uint64(len(f.has)) }
func (f *diskFilter) Cap() uint64                     { return uint64(f.room) }
func (f *diskFilter) TargetRate() float64             { return defaultRate }
func (f *diskFilter) DurableSeq() uint64              { return f.seq }
func (f *diskFilter) DurableOps() uint64              { return 0 }
func (f *diskFilter) Seal(context.Context) error      { return nil }
func (f *diskFilter) Close() error                    { return nil }
func (f *diskFilter) DeleteHash(uint64) (bool, error) { panic("only Exact deletes") }

func (f *diskFilter) ContainsHashes(hashes []uint64, found []bool) {
	for i, h := range hashes {
		found[i] = f.has[h]
	}
}

func (f *diskFilter) InsertHashes(hashes []uint64, _ bool) (n, added int, err error) {
	f.disk.step()
	for _, h := range hashes {
		if !f.has[h] {
			if len(f.has) == f.room {
				return n, added, mmapfilter.ErrFull
			}
			f.has[h] = true
			added++
		}
		if n++; f.instant {
			f.sinceThen = append(f.sinceThen, h)
		}
	}
	return n, added, nil
}

func (f *diskFilter) Sync() error {
	f.disk.step()
	f.durable = maps.Clone(f.has)
	return nil
}

func (f *diskFilter) SyncAtFunc(seq func(uint64) uint64) error {
	err := f.Sync()
	f.seq = seq(0)
	return err
}

func (f *diskFilter) Rebuild(_ context.Context, o *guarded.RebuildOptions) error {
	keys, err := o.Keys()
	if err != nil {
		return err
	}
	f.instant, f.sinceThen = true, nil
	next := map[uint64]bool{}
	for key, err := range keys {
		if err != nil {
			return err
		}
		f.disk.step()
		next[f.Hash(key)] = true
	}
	for _, h := range append(o.Hashes(), f.sinceThen...) {
		next[h] = true
	}
	f.disk.step()
	f.instant, f.room = false, int(o.CapacityFor(uint64(len(next))))
	f.has, f.durable = next, maps.Clone(next)
	f.disk.step()
	return nil
}

func (d *disk) options() *Options {
	o := (&Options{Capacity: 4}).WithDefaults("f", Rebuild)
	o.Hooks = &guarded.Hooks{
		Manual: true,
		Random: func() uint64 { d.random++; return d.random<<baseBits | d.random },
		Create: func(_ string, o *mmapfilter.Options) (guarded.Filter, error) {
			d.step()
			d.filter = &diskFilter{disk: d, name: o.Normalisation, room: int(o.Capacity)}
			d.filter.has, d.filter.durable = map[uint64]bool{}, map[uint64]bool{}
			return d.filter, nil
		},
		Open: func(string) (guarded.Filter, error) {
			if d.filter == nil {
				return nil, errOther
			}
			return d.filter, nil
		},
	}
	return o
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

// copied returns the disk after a crash. keep says that no transaction is lost.
func (d *disk) copied(keep bool) *disk {
	c := newDisk(d.store.reopen(keep), d.filter.copied())
	c.random = d.random
	return c
}

// copied returns the filter after a crash.
func (f *diskFilter) copied() *diskFilter {
	if f == nil {
		return nil
	}
	return &diskFilter{name: f.name, has: maps.Clone(f.durable), durable: f.durable, seq: f.seq, room: f.room}
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
					if older.filter = d.filter.copied(); older.filter != nil {
						older.filter.disk = older
					}
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
