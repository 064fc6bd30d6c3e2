package bboltguard

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

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var rounds = flag.Int("rounds", 150, "transactions of each writer in the model test")

// A model is what the buckets of one writer have.
type model struct {
	buckets map[string]bool   // paths
	keys    map[string]string // joined keys
}

func newModel() *model { return &model{map[string]bool{}, map[string]string{}} }

func (m *model) clone() *model { return &model{maps.Clone(m.buckets), maps.Clone(m.keys)} }

func (m *model) remove(path []byte) {
	within := func(p string) bool { return strings.HasPrefix(p, string(path)) }
	maps.DeleteFunc(m.buckets, func(p string, _ bool) bool { return within(p) })
	maps.DeleteFunc(m.keys, func(p string, _ string) bool { return within(p) })
}

// read makes the model what a bucket has in the store.
func (m *model) read(b *bbolt.Bucket, path []byte) {
	m.buckets[string(path)] = true
	_ = b.ForEach(func(key, value []byte) error {
		if child := b.Bucket(key); child != nil {
			m.read(child, appendName(path[:len(path):len(path)], key))
		} else {
			m.keys[string(appendKey(path[:len(path):len(path)], key))] = string(value)
		}
		return nil
	})
}

// A writer does random transactions in a bucket of its own.
type writer struct {
	db   *DB
	r    *rand.Rand
	name []byte
	m    *model // what is committed
}

var errAbort = errors.New("abort")

// step does some operations in a transaction, and in a copy of the model.
func (w *writer) step(t *Tx) (*model, error) {
	m := w.m.clone()
	top, err := t.CreateBucketIfNotExists(w.name)
	if err != nil {
		return nil, err
	}
	m.buckets[string(top.path)] = true
	names := [][]byte{[]byte("x"), []byte("y"), []byte("z")}
	for range 1 + w.r.IntN(40) {
		b := top
		for w.r.IntN(2) == 0 {
			child := b.Bucket(names[w.r.IntN(len(names))])
			if child == nil {
				break
			}
			b = child
		}
		if err := w.operation(t, m, top, b, names[w.r.IntN(len(names))]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (w *writer) operation(t *Tx, m *model, top, b *Bucket, name []byte) error {
	key := number(w.r.IntN(300))
	joined := string(b.join(key))
	value, there := m.keys[joined]
	path := string(appendName(b.path[:len(b.path):len(b.path)], name))
	switch n := w.r.IntN(100); {
	case n < 45:
		value := fmt.Sprint(w.r.Uint64())
		m.keys[joined] = value
		return b.Put(key, []byte(value))
	case n < 60:
		delete(m.keys, joined)
		return b.Delete(key)
	case n < 65:
		c := b.Cursor()
		k, v := c.Seek(key)
		if k == nil || v == nil {
			return nil
		}
		delete(m.keys, string(b.join(k)))
		return c.Delete()
	case n < 80:
		got := b.Get(key)
		if (got != nil) != there || string(got) != value {
			return fmt.Errorf("get %q in a writable transaction: %q, want %q", joined, got, value)
		}
	case n < 90:
		m.buckets[path] = true
		_, err := b.CreateBucketIfNotExists(name)
		return err
	case n < 92:
		err := b.DeleteBucket(name)
		if m.buckets[path] != (err == nil) {
			return fmt.Errorf("delete bucket: %w", err)
		}
		if err == nil {
			m.remove([]byte(path))
		}
	case n < 95:
		if err := b.MoveBucket(name, top); err == nil {
			m.remove(top.path) // bbolt does not move what this transaction has done
			m.read(top.engineBucket, top.path)
		}
	case n < 97:
		_, err := b.NextSequence()
		return err
	default:
		_, err := hidden(t)
		return err
	}
	return nil
}

// run does one transaction in one of the ways in which that can be done.
func (w *writer) run() (err error) {
	var m *model
	fn := func(t *Tx) (err error) {
		m, err = w.step(t)
		return err
	}
	end := w.r.IntN(10)
	switch w.r.IntN(3) {
	case 0:
		again := w.r.IntN(4)
		err = w.db.Batch(func(t *Tx) error {
			err := fn(t)
			if err == nil && again == 0 {
				again = 1
				return errAbort // it is run again, alone
			}
			return err
		})
	case 1:
		func() {
			defer func() {
				if p := recover(); p == errAbort {
					err = errAbort
				} else if p != nil {
					panic(p)
				}
			}()
			err = w.db.Update(func(t *Tx) error {
				err := fn(t)
				if err == nil && end == 0 {
					return errAbort
				}
				if err == nil && end == 1 {
					panic(errAbort)
				}
				return err
			})
		}()
	case 2:
		t, err := w.db.Begin(true)
		if err != nil {
			return err
		}
		if err := fn(t); err != nil || end == 0 {
			return errors.Join(err, t.Rollback())
		}
		if err := t.Commit(); err != nil {
			return err
		}
	}
	if err == errAbort {
		return nil
	}
	if err == nil {
		w.m = m
	}
	return err
}

var errHidden = errors.New("a key is hidden")

// TestModel covers G1 and G3: transactions, readers, rebuilds and marks go on side by side. No key is
// hidden, and at the end the filter has each key once.
func TestModel(t *testing.T) {
	each(t, func(t *testing.T, g *guard.Options) {
		for _, mapped := range []int{0, 1 << 28} {
			t.Run(fmt.Sprintf("mapped=%d", mapped), func(t *testing.T) {
				o := fast()
				o.InitialMmapSize = mapped
				testModel(t, o, g)
			})
		}
	})
}

func testModel(t *testing.T, o *bbolt.Options, g *guard.Options) {
	r := random(t)
	path := t.TempDir() + "/db"
	d := mustOpen(t, path, o, g)
	d.MaxBatchDelay = 0
	writers := make([]*writer, 4)
	for i := range writers {
		writers[i] = &writer{db: d, r: rand.New(rand.NewPCG(r.Uint64(), 0)), name: fmt.Appendf(nil, "w%d", i), m: newModel()}
	}
	var stop atomic.Bool
	var writing, others sync.WaitGroup
	for _, w := range writers {
		writing.Go(func() {
			for i := range *rounds {
				if err := w.run(); err != nil {
					t.Errorf("transaction %d: %v", i, err)
					return
				}
			}
		})
	}
	others.Go(func() {
		for !stop.Load() {
			if err := rebuild(d); err != nil {
				t.Error(err)
				return
			}
		}
	})
	others.Go(func() {
		for !stop.Load() {
			if err := d.Guard().Work(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		others.Go(func() {
			for !stop.Load() {
				read(t, d, r, &stop)
			}
		})
	}
	writing.Wait()
	stop.Store(true)
	others.Wait()
	if t.Failed() {
		return
	}

	check := func() {
		t.Helper()
		want, got := newModel(), newModel()
		must(t, d.View(func(tx *Tx) error {
			for _, w := range writers {
				maps.Copy(want.keys, w.m.keys)
				if b := tx.Bucket(w.name); b != nil {
					got.read(b.engineBucket, b.path)
				}
			}
			return nil
		}))
		if !maps.Equal(want.keys, got.keys) {
			t.Errorf("the store has %d keys, the model %d, or they differ", len(got.keys), len(want.keys))
		}
		mustHaveAll(t, d)
	}
	check()
	must(t, d.Guard().Rebuild(context.Background()))
	must(t, d.Guard().Work())
	check()
	if s, n := d.GuardStats(), countAll(t, d); s.Keys != uint64(n) || s.State != "serving" {
		t.Errorf("%d keys: %+v", n, s)
	}
	must(t, d.Close())
	d = mustOpen(t, path, o, g)
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
		t.Errorf("opened again: %+v", s)
	}
	check()
	must(t, d.Close())
}

// read looks at all keys, again and again, in one read transaction.
func read(t *testing.T, d *DB, r *rand.Rand, stop *atomic.Bool) {
	err := d.View(func(tx *Tx) error {
		for range 1 + r.IntN(30) {
			if _, err := hidden(tx); err != nil {
				return err
			}
			if err := tx.ForEach(func(_ []byte, b *Bucket) error {
				for range 20 {
					if key := number(r.IntN(600)); !same(b.Get(key), b.engineBucket.Get(key)) {
						return fmt.Errorf("key %q differs", key)
					}
				}
				return nil
			}); err != nil {
				return err
			}
			_ = d.GuardStats() // in a read transaction, too
			if stop.Load() {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
