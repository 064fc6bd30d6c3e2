package guardtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var (
	steps = flag.Int("steps", 300, "steps of each worker of the model test")
	seed  = flag.Uint64("modelseed", 0, "seed of the model, kill and file tests; 0 means a random one")
)

const (
	workers    = 5
	workerKeys = 200 // keys of each worker
	sharedKeys = 40
)

// A Worker changes keys of its own, which begin with its Name and a slash, and some keys that all
// workers share.
type Worker struct {
	DB   DB
	Rand *rand.Rand
	Name string
	Has  map[string]string // its keys that are in the store, with their values
	Loud bool              // says when it has done something

	revives bool
	last    int // number of the last value
}

// Key returns one of the worker's keys.
func (w *Worker) Key() string { return w.key(w.Rand.IntN(workerKeys)) }

func (w *Worker) key(i int) string { return fmt.Sprintf("%s/%03d", w.Name, i) }

// Value returns a value that is new.
func (w *Worker) Value() string {
	w.last++
	return fmt.Sprintf("value%d.", w.last)
}

// Change makes some changes, and returns what w.Has must be once they are committed.
func (w *Worker) Change(c Changes) (after map[string]string, err error) {
	after = maps.Clone(w.Has)
	for range 1 + w.Rand.IntN(20) {
		key := w.Key()
		if w.Rand.IntN(5) < 2 {
			delete(after, key)
			err = c.Delete(key)
		} else {
			after[key] = w.Value()
			err = c.Set(key, after[key])
		}
		if err != nil {
			return nil, err
		}
	}
	return after, nil
}

var errRollback = errors.New("rolled back")

// transaction does a transaction, or rolls it back.
func (w *Worker) transaction() error {
	var after map[string]string
	rollback := w.Rand.IntN(6) == 0
	err := w.DB.Do(w.Rand, func(tx Tx) (err error) {
		if after, err = w.Change(tx); err != nil {
			return err
		}
		for range 8 {
			key := w.Key()
			if err := w.look(tx, key, after[key]); err != nil {
				return fmt.Errorf("in its transaction: %w", err)
			}
		}
		if err := w.share(tx); err != nil {
			return err
		}
		if rollback {
			return errRollback
		}
		return nil
	})
	if err == nil {
		w.Has = after
	}
	if errors.Is(err, errRollback) || err == ErrNotDone {
		return nil
	}
	return err
}

// share changes a key that all workers share.
func (w *Worker) share(tx Tx) error {
	key := fmt.Sprintf("shared/%02d", w.Rand.IntN(sharedKeys))
	switch value, err := tx.Get(key); {
	case err != nil:
		return err
	case value == nil:
		return tx.Set(key, "s")
	case w.Rand.IntN(2) == 0:
		return tx.Delete(key)
	}
	return nil
}

// look returns an error if one of the worker's keys has another value than want. An empty want
// means that the key is not there.
func (w *Worker) look(l Lookups, key, want string) error {
	value, err := l.Get(key)
	has, e := l.Has(key)
	if err = errors.Join(err, e); err == nil && !w.revives && (string(value) != want || has != (want != "")) {
		err = fmt.Errorf("key %q is %q, and there: %t; not %q; %+v", key, value, has, want, w.DB.GuardStats())
	}
	return err
}

// check looks up all of the worker's keys: in a reader, and one by one in the store.
func (w *Worker) check() error {
	r, err := w.DB.Reader()
	if err != nil {
		return err
	}
	err = w.checkWith(r)
	for i := range workerKeys {
		err = errors.Join(err, compare(w.DB, r, w.key(i)))
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	return w.checkWith(w.DB) // after the reader: in some engines, a commit waits for the reader, and Get for the commit
}

func (w *Worker) checkWith(l Lookups) error {
	for i := range workerKeys {
		if err := w.look(l, w.key(i), w.Has[w.key(i)]); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) step() error {
	switch n := w.Rand.IntN(100); {
	case n < 50:
		return w.transaction()
	case n < 95:
		return w.DB.Step(w)
	}
	return w.check()
}

// A crew is a number of workers, and goroutines that do other things until the workers have
// ended. The first error ends all of them.
type crew struct {
	db      DB
	workers []*Worker
	stop    atomic.Bool
	errs    chan error
	group   sync.WaitGroup
}

// newCrew returns workers for the keys that a store has.
func (e Engine) newCrew(d DB, r *rand.Rand) (*crew, error) {
	c := &crew{db: d, errs: make(chan error, 20)}
	for i := range workers {
		c.workers = append(c.workers, &Worker{DB: d, Rand: fork(r), Name: fmt.Sprint("w", i), Has: map[string]string{}, revives: e.Revives})
	}
	has, err := contents(d)
	for _, w := range c.workers {
		w.Has = has[w.Name]
		if w.Has == nil {
			w.Has = map[string]string{}
		}
		for _, value := range w.Has { // new values have higher numbers
			var last int
			fmt.Sscanf(value, "value%d", &last)
			w.last = max(w.last, last)
		}
	}
	return c, err
}

// contents returns the keys of a store and their values, by the first names of the keys.
func contents(d DB) (map[string]map[string]string, error) {
	r, err := d.Reader()
	if err != nil {
		return nil, err
	}
	has := map[string]map[string]string{}
	keys, err := r.Keys()
	for _, key := range keys {
		name, _, _ := strings.Cut(key, "/")
		if has[name] == nil {
			has[name] = map[string]string{}
		}
		value, e := r.Get(key)
		has[name][key] = string(value)
		err = errors.Join(err, e)
	}
	return has, errors.Join(err, r.Close())
}

// again calls do again and again in a goroutine.
func (c *crew) again(do func() error) {
	c.group.Add(1)
	go func() {
		defer c.group.Done()
		for !c.stop.Load() {
			if err := do(); err != nil {
				c.errs <- err
				c.stop.Store(true)
			}
		}
	}()
}

// rebuild rebuilds the filter while others write. If they write faster than it reads, the new
// filter may have no room for their keys; then the guard tries again.
func (c *crew) rebuild() error {
	if err := c.db.Guard().Rebuild(context.Background()); !errors.Is(err, mmapfilter.ErrFull) {
		return err
	}
	return nil
}

// read looks at all keys in the view of one instant, again and again, while others delete them.
func (c *crew) read(r *rand.Rand) error {
	reader, err := c.db.Reader()
	if err != nil {
		return err
	}
	for range 1 + r.IntN(10) {
		if _, err = Hidden(c.db, reader); err != nil {
			break
		}
		for range 100 {
			key := fmt.Sprintf("w%d/%03d", r.IntN(workers), r.IntN(2*workerKeys))
			err = errors.Join(err, compare(c.db, reader, key))
		}
		_ = c.db.GuardStats() // must not wait for the reader
		if err != nil || c.stop.Load() {
			break
		}
	}
	return errors.Join(err, reader.Close())
}

// work makes each worker do n steps, or as many as it can. It returns the first error.
func (c *crew) work(n int) error {
	var working sync.WaitGroup
	for _, w := range c.workers {
		working.Add(1)
		go func() {
			defer working.Done()
			for i := 0; i < n && !c.stop.Load(); i++ {
				if err := w.step(); err != nil {
					c.errs <- fmt.Errorf("%s, step %d: %w", w.Name, i, err)
					c.stop.Store(true)
				}
				if w.Loud {
					fmt.Println("done")
				}
			}
		}()
	}
	working.Wait()
	c.stop.Store(true)
	c.group.Wait()
	close(c.errs)
	return <-c.errs
}

// Model covers G1 and G3: transactions, the engine's own steps, readers, rebuilds and marks run
// concurrently. No key is hidden, all keys are as the workers' maps say, and after a rebuild the filter
// has each key once. Then the store is opened again.
func Model(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		r, dir := random(t), t.TempDir()
		d := e.MustOpen(t, dir, Often(deletes))
		for range 3 {
			c, err := e.newCrew(d, r)
			Must(t, err)
			c.again(c.rebuild)
			c.again(d.Guard().Work)
			for range 2 {
				r := fork(r)
				c.again(func() error { return c.read(r) })
			}
			Must(t, c.work(*steps/3))
			e.mustAgree(t, d, c)
			n := MustHideNone(t, d)
			Rebuild(t, d)
			Must(t, d.Guard().Work())
			if s, now := d.GuardStats(), MustHideNone(t, d); !Serving(s) || !e.Revives && (s.Keys > uint64(n) || s.Keys < uint64(now)) {
				t.Errorf("%d keys, %d of them expired since: %+v", n, n-now, s)
			}
			t.Logf("%d keys: %+v", n, d.GuardStats())
			before := d.GuardStats().Skipped
			for i := range 100 {
				_, err := d.Get(fmt.Sprintf("w0/absent%d", i))
				Must(t, err)
			}
			if d.GuardStats().Skipped == before {
				t.Error("no lookup of an absent key was skipped")
			}
			Must(t, d.Close())
			d = e.MustServe(t, dir, Often(deletes))
			e.mustAgree(t, d, c)
		}
	})
}

// mustAgree checks that the store has the keys that the workers' maps have, and no other keys
// of the workers.
func (e Engine) mustAgree(t *testing.T, d DB, c *crew) {
	t.Helper()
	has, err := contents(d)
	Must(t, err)
	for _, w := range c.workers {
		if !maps.Equal(has[w.Name], w.Has) && !e.Revives {
			t.Errorf("%s has %d keys, not %d, or they differ", w.Name, len(has[w.Name]), len(w.Has))
		}
	}
}
