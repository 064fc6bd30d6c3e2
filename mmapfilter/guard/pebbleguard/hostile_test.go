package pebbleguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestBatchReads reads what a batch has not committed.
func TestBatchReads(t *testing.T) {
	for _, deletes := range bothModes {
		d := mustOpen(t, t.TempDir(), newest(), &guard.Options{Deletes: deletes})
		must(t, d.Set(key("a"), []byte("store"), nil))
		b := d.NewIndexedBatchWithSize(100)
		get := func(k, want string) {
			t.Helper()
			v, c, err := b.Get(key(k))
			switch {
			case want == "" && err == pebble.ErrNotFound:
			case err != nil || string(v) != want:
				t.Fatalf("%s: %q, %v", k, v, err)
			default:
				must(t, c.Close())
			}
		}
		get("a", "store")
		get("b", "")
		must(t, b.Set(key("b"), []byte("batch"), nil))
		must(t, b.Merge(key("a"), []byte("+"), nil))
		get("b", "batch")
		get("a", "store+")
		must(t, b.Delete(key("a"), nil))
		get("a", "")
		it, err := b.NewIter(nil)
		must(t, err)
		if !it.First() || string(it.Key()) != "b" || it.Next() {
			t.Errorf("%q", it.Key())
		}
		must(t, it.Close())
		must(t, b.Commit(nil))
		must(t, b.Close())
		if _, _, err := d.NewBatch().Get(key("a")); !errors.Is(err, pebble.ErrNotIndexed) {
			t.Error(err)
		}
		mustHide(t, d, 1)
		must(t, d.Close())
	}
}

// TestHide moves iterators over the keys of the guard.
func TestHide(t *testing.T) {
	d := mustOpen(t, t.TempDir(), newest(), nil)
	defer d.Close()
	for i := range 10 {
		must(t, d.Set(number(i), nil, nil))
	}
	must(t, d.Set([]byte{0}, nil, nil))
	must(t, d.RangeKeySet([]byte{0}, key("z"), nil, nil, nil))
	s, e := d.NewSnapshot(), d.NewEventuallyFileOnlySnapshot([]pebble.KeyRange{{Start: []byte{0}, End: key("z")}})
	b := d.NewIndexedBatch()
	skip := func(k []byte) bool { return bytes.Equal(k, number(3)) }
	for name, open := range map[string]func(o *pebble.IterOptions) (*pebble.Iterator, error){
		"DB": d.NewIter, "Snapshot": s.NewIter, "EventuallyFileOnlySnapshot": e.NewIter, "Batch": b.NewIter,
		"DB with context":                         func(o *pebble.IterOptions) (*pebble.Iterator, error) { return d.NewIterWithContext(t.Context(), o) },
		"Snapshot with context":                   func(o *pebble.IterOptions) (*pebble.Iterator, error) { return s.NewIterWithContext(t.Context(), o) },
		"EventuallyFileOnlySnapshot with context": func(o *pebble.IterOptions) (*pebble.Iterator, error) { return e.NewIterWithContext(t.Context(), o) },
		"Batch with context":                      func(o *pebble.IterOptions) (*pebble.Iterator, error) { return b.NewIterWithContext(t.Context(), o) },
	} {
		for i, o := range []*pebble.IterOptions{nil, {}, {SkipPoint: skip}, {LowerBound: key("a")}, {UpperBound: []byte{0}}, {KeyTypes: pebble.IterKeyTypePointsAndRanges}} {
			it, err := open(o)
			must(t, err)
			it.SetBounds(nil, nil)
			points := 0
			for ok := it.First(); ok; ok = it.Next() {
				if point, _ := it.HasPointAndRange(); point {
					points++
				}
				if d.store.reserved(it.Key()) {
					t.Errorf("%s: %q", name, it.Key())
				}
			}
			for ok := it.Last(); ok; ok = it.Prev() {
				if d.store.reserved(it.Key()) {
					t.Errorf("%s: %q", name, it.Key())
				}
			}
			if want := map[bool]int{true: 10, false: 11}[i == 2]; points != want {
				t.Errorf("%s, options %d: %d keys", name, i, points)
			}
			must(t, it.Close())
		}
	}
	for _, get := range []func(k []byte) error{
		func(k []byte) error { _, c, err := s.Get(k); return closed(c, err) },
		func(k []byte) error { _, c, err := e.Get(k); return closed(c, err) },
	} {
		if err := get(number(1)); err != nil {
			t.Error(err)
		}
		if err := get(number(11)); err != pebble.ErrNotFound {
			t.Error(err)
		}
	}
	must(t, errors.Join(s.Close(), e.Close(), b.Close()))
}

func closed(c interface{ Close() error }, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

// TestWithoutLog has no write-ahead log: a crash loses what was not flushed, in store and filter.
func TestWithoutLog(t *testing.T) {
	for _, deletes := range bothModes {
		dir, o, g := t.TempDir(), newest(), &guard.Options{Deletes: deletes}
		o.DisableWAL = true
		d := mustOpen(t, dir, o, g)
		must(t, d.Set(key("a"), nil, pebble.NoSync))
		must(t, d.Set(key("b"), nil, pebble.NoSync))
		must(t, d.Delete(key("a"), pebble.NoSync))
		b := d.NewBatch()
		must(t, b.Set(key("c"), nil, nil))
		if err := b.Commit(pebble.Sync); !errors.Is(err, errNoLog) {
			t.Error(err)
		}
		must(t, b.Commit(pebble.NoSync)) // it is as it was
		must(t, b.Close())
		must(t, d.Ingest(t.Context(), []string{table(t, "1", setAll("d"))}))
		mustHide(t, d, 3)
		must(t, d.Close())
		d = mustOpen(t, dir, o, g)
		mustHide(t, d, 3)
		must(t, d.Close())
	}
}

// TestReadOnly opens a store for reading: no write reaches the filter.
func TestReadOnly(t *testing.T) {
	dir, o, file, span := t.TempDir(), newest(), table(t, "1", setAll("x")), pebble.KeyRange{Start: key("a"), End: key("z")}
	must(t, mustOpen(t, dir, newest(), nil).Close())
	o.ReadOnly = true
	d := mustOpen(t, dir, o, nil)
	b := d.NewBatch()
	must(t, b.Set(key("x"), nil, nil))
	_, err := d.IngestAndExcise(t.Context(), []string{file}, nil, nil, span)
	for _, err := range []error{
		err, b.Commit(nil), d.Set(key("x"), nil, nil), d.Delete(number(1), nil), d.DeleteRange(key("a"), key("z"), nil),
		d.Ingest(t.Context(), []string{file}), d.Excise(t.Context(), span),
	} {
		if !errors.Is(err, pebble.ErrReadOnly) {
			t.Error(err)
		}
	}
	if s := d.GuardStats(); s.State != "serving" || s.Keys != 0 {
		t.Errorf("%+v", s)
	}
	must(t, errors.Join(b.Close(), d.Close()))
}

// TestComparer refuses a store in which keys of different bytes may be one.
func TestComparer(t *testing.T) {
	c, o := *pebble.DefaultComparer, newest()
	c.Name = "another"
	o.Comparer = &c
	if _, err := Open(t.TempDir(), o, nil); !errors.Is(err, ErrNotFollowed) {
		t.Error(err)
	}
}

// TestOnePath has two stores with one filter: the second one does without.
func TestOnePath(t *testing.T) {
	g := &guard.Options{Path: filepath.Join(t.TempDir(), "f")}
	a := mustOpen(t, t.TempDir(), newest(), g)
	defer a.Close()
	must(t, a.Set(key("a"), nil, nil))
	b := mustOpen(t, t.TempDir(), newest(), g)
	must(t, b.Set(key("b"), nil, nil))
	if s := b.GuardStats(); s.State != "off" {
		t.Errorf("%+v", s)
	}
	if _, err := hidden(b); err != nil {
		t.Error(err)
	}
	must(t, b.Close())
	mustHide(t, a, 1)
}

// TestCheckpoint opens a copy of a store.
func TestCheckpoint(t *testing.T) {
	for _, deletes := range bothModes {
		d := mustOpen(t, t.TempDir(), newest(), &guard.Options{Deletes: deletes})
		for i := range 100 {
			must(t, d.Set(number(i), nil, nil))
		}
		copied := filepath.Join(t.TempDir(), "copy")
		must(t, d.Checkpoint(copied))
		must(t, d.DeleteRange(key("a"), key("z"), nil))
		mustHide(t, d, 0)
		e := mustOpen(t, copied, newest(), &guard.Options{Deletes: deletes})
		mustHide(t, e, 100)
		if s := e.GuardStats(); s.Err != "" || s.Rebuilds == 0 {
			t.Errorf("%+v", s)
		}
		must(t, errors.Join(d.Close(), e.Close()))
	}
}

// TestLargeIngest ingests more keys than one transaction has.
func TestLargeIngest(t *testing.T) {
	const n = ingestAtOnce*5/2 + 1
	for _, deletes := range bothModes {
		d := mustOpen(t, t.TempDir(), newest(), &guard.Options{Deletes: deletes})
		file := table(t, "1", func(w *sstable.Writer) (err error) {
			for i := 0; i < n && err == nil; i++ {
				err = w.Set(number(i), nil)
			}
			return err
		})
		must(t, d.Ingest(t.Context(), []string{file}))
		mustHide(t, d, n)
		must(t, d.Close())
	}
}

// TestLeaks has ingests fail, and closes the store: it says what is still open.
func TestLeaks(t *testing.T) {
	d := mustOpen(t, t.TempDir(), newest(), nil)
	bad := filepath.Join(t.TempDir(), "bad")
	must(t, os.WriteFile(bad, bytes.Repeat([]byte("bad"), 1000), 0o600))
	good := table(t, "1", setAll("a"))
	for i, paths := range [][]string{{bad}, {good, bad}, {good, "nowhere"}, {good, table(t, "2", setAll(guardPrefix))}} {
		if err := d.Ingest(t.Context(), paths); err == nil {
			t.Errorf("%d: no error", i)
		}
	}
	mustHide(t, d, 0)
	must(t, d.Close())
}

// TestOverwriteAndRangeDelete removes a key that a transaction overwrites.
func TestOverwriteAndRangeDelete(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(d *DB) error{
		"DeleteRange":  func(d *DB) error { return d.DeleteRange(key("a"), key("z"), nil) },
		"SingleDelete": func(d *DB) error { return d.SingleDelete(key("k"), nil) },
		"Excise":       func(d *DB) error { return d.Excise(ctx, pebble.KeyRange{Start: key("a"), End: key("z")}) },
		"Ingest": func(d *DB) error {
			return d.Ingest(ctx, []string{table(t, "1", func(w *sstable.Writer) error { return w.Delete(key("k")) })})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustOpen(t, t.TempDir(), newest(), &guard.Options{Deletes: guard.Exact})
			defer d.Close()
			must(t, d.Set(key("k"), nil, nil))
			b := d.NewBatch()
			defer b.Close()
			must(t, b.Set(key("k"), []byte("again"), nil))
			removed := make(chan error, 1)
			// The transaction knows that the key is there. It must stay until the transaction is
			// done, or a rebuild would not learn of it.
			err := d.commit(b.Batch, pebble.NoSync, func(b *pebble.Batch, o *pebble.WriteOptions) error {
				go func() { removed <- remove(d) }()
				for range 20 {
					select {
					case err := <-removed:
						t.Error("it is removed before the transaction is done")
						removed <- err
					default:
					}
					if err := d.guard.Rebuild(ctx); err != nil {
						return err
					}
				}
				return d.DB.Apply(b, o)
			})
			must(t, err)
			must(t, <-removed)
			must(t, d.Set(key("k"), nil, nil))
			mustHide(t, d, 1)
		})
	}
}

// TestExciseInRebuild has an excise come between the instant of a rebuild and its reading.
func TestExciseInRebuild(t *testing.T) {
	ctx := context.Background()
	for _, deletes := range bothModes {
		d := mustOpen(t, t.TempDir(), newest(), &guard.Options{Deletes: deletes})
		for i := range 100 {
			must(t, d.Set(number(i), nil, nil))
		}
		must(t, d.Flush())
		s, err := d.store.Snapshot()
		must(t, err)
		must(t, d.Excise(ctx, pebble.KeyRange{Start: key("a"), End: key("z")}))
		n := 0
		for _, err := range s.Keys {
			must(t, err)
			n++
		}
		must(t, s.Close())
		if n != 100 {
			t.Errorf("%d keys", n)
		}
		must(t, d.Close())
	}
}

// TestFailedCommit commits a batch that the guard refuses, and then what is left of it.
func TestFailedCommit(t *testing.T) {
	d := mustOpen(t, t.TempDir(), newest(), nil)
	defer d.Close()
	b := d.NewBatch()
	must(t, b.Set(key("a"), nil, nil))
	repr := fmt.Sprint(b.Repr())
	must(t, b.Set(key(guardPrefix), nil, nil))
	if err := b.Commit(nil); !errors.Is(err, ErrReserved) {
		t.Error(err)
	}
	b.Reset()
	must(t, b.Set(key("a"), nil, nil))
	if fmt.Sprint(b.Repr()) != repr {
		t.Errorf("%q", b.Repr())
	}
	must(t, b.Commit(nil))
	must(t, b.Close())
	mustHide(t, d, 1)
}

// TestPrefix has the guard's keys last of all.
func TestPrefix(t *testing.T) {
	for _, deletes := range bothModes {
		dir, g := t.TempDir(), &guard.Options{Deletes: deletes, Prefix: []byte{0xff, 0xff}}
		d := mustOpen(t, dir, newest(), g)
		for i := range 100 {
			must(t, d.Set(number(i), nil, nil))
		}
		if err := d.DeleteRange(number(50), []byte{0xff, 0xff, 0}, nil); !errors.Is(err, ErrReserved) {
			t.Error(err)
		}
		must(t, d.DeleteRange(number(50), []byte{0xff, 0xff}, nil))
		mustHide(t, d, 50)
		must(t, d.Close())
		d = mustOpen(t, dir, newest(), g)
		if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
			t.Errorf("%+v", s)
		}
		mustHide(t, d, 50)
		must(t, d.Close())
	}
}

// TestWrongStore commits a batch to another store: Pebble panics, and both stores go on.
func TestWrongStore(t *testing.T) {
	for _, deletes := range bothModes {
		g := &guard.Options{Deletes: deletes}
		a, b := mustOpen(t, t.TempDir(), newest(), g), mustOpen(t, t.TempDir(), newest(), g)
		batch := a.NewBatch()
		must(t, batch.Set(key("a"), nil, nil))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			b.Apply(batch, nil)
		}()
		must(t, batch.Close())
		must(t, a.Set(key("a"), nil, nil))
		must(t, b.Set(key("a"), nil, nil))
		must(t, b.DeleteRange(key("a"), key("b"), nil))
		mustHide(t, a, 1)
		mustHide(t, b, 0)
		must(t, errors.Join(a.Close(), b.Close()))
	}
}
