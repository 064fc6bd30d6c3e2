package pebbleguard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// mustKeep checks the number of keys in the store, and that none is hidden.
func mustKeep(t *testing.T, d *testStore, keys int) {
	t.Helper()
	if n := guardtest.MustKeep(t, d); n != keys {
		t.Errorf("%d keys, not %d", n, keys)
	}
}

// TestBatchReads reads writes of a batch that is not committed yet.
func TestBatchReads(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := open(t, t.TempDir(), newest(), guardtest.Quiet(deletes))
		must(t, d.Set(key("a"), []byte("store"), nil))
		b := d.NewIndexedBatchWithSize(100)
		mustBe := func(k, want string) {
			t.Helper()
			v, err := text(b.Get(key(k)))
			there, hasErr := b.Has(key(k))
			if err = errors.Join(err, hasErr); string(v) != want || there != (want != "") || err != nil {
				t.Fatalf("%s: %q, there: %t, %v", k, v, there, err)
			}
		}
		mustBe("a", "store")
		mustBe("b", "")
		must(t, errors.Join(b.Set(key("b"), []byte("batch"), nil), b.Merge(key("a"), []byte("+"), nil)))
		mustBe("b", "batch")
		mustBe("a", "store+")
		must(t, b.Delete(key("a"), nil))
		mustBe("a", "")
		must(t, errors.Join(b.Commit(nil), b.Close()))
		_, _, err := d.NewBatch().Get(key("a"))
		if there, hasErr := d.NewBatch().Has(key("b")); there || !errors.Is(err, pebble.ErrNotIndexed) || hasErr != err {
			t.Error(err, hasErr)
		}
		mustKeep(t, d, 1)
	})
}

// TestHide checks that iterators of all kinds skip the keys of the guard.
func TestHide(t *testing.T) {
	d := open(t, t.TempDir(), newest(), nil)
	guardtest.Set(t, d, 0, 10)
	must(t, d.Set([]byte{0}, nil, nil))
	must(t, d.RangeKeySet([]byte{0}, key("z"), nil, nil, nil))
	s, e := d.NewSnapshot(), d.NewEventuallyFileOnlySnapshot([]pebble.KeyRange{{Start: []byte{0}, End: key("z")}})
	b := d.NewIndexedBatch()
	skip := func(k []byte) bool { return bytes.Equal(k, number(3)) }
	type newIter = func(o *pebble.IterOptions) (*pebble.Iterator, error)
	for i, open := range []newIter{
		d.NewIter, s.NewIter, e.NewIter, b.NewIter,
		func(o *pebble.IterOptions) (*pebble.Iterator, error) { return d.NewIterWithContext(t.Context(), o) },
		func(o *pebble.IterOptions) (*pebble.Iterator, error) { return s.NewIterWithContext(t.Context(), o) },
		func(o *pebble.IterOptions) (*pebble.Iterator, error) { return e.NewIterWithContext(t.Context(), o) },
		func(o *pebble.IterOptions) (*pebble.Iterator, error) { return b.NewIterWithContext(t.Context(), o) },
	} {
		for _, o := range []*pebble.IterOptions{nil, {}, {SkipPoint: skip}, {LowerBound: key("a")}, {UpperBound: []byte{0}}, {KeyTypes: pebble.IterKeyTypePointsAndRanges}} {
			it, err := open(o)
			must(t, err)
			it.SetBounds(nil, nil)
			var seen, back [][]byte
			for ok := it.First(); ok; ok = it.Next() {
				if point, _ := it.HasPointAndRange(); point {
					seen = append(seen, bytes.Clone(it.Key()))
				}
			}
			for ok := it.Last(); ok; ok = it.Prev() {
				if point, _ := it.HasPointAndRange(); point {
					back = append(back, bytes.Clone(it.Key()))
				}
			}
			want := 11
			if o != nil && o.SkipPoint != nil {
				want = 10
			}
			if slices.Reverse(back); len(seen) != want || !slices.EqualFunc(seen, back, bytes.Equal) || slices.ContainsFunc(seen, d.store.reserved) {
				t.Errorf("iterator %d, options %+v: %q, and back %q", i, o, seen, back)
			}
			must(t, it.Close())
		}
	}
	for k, there := range map[int]bool{1: true, 11: false} {
		ofS, errS := text(s.Get(number(k)))
		ofE, errE := text(e.Get(number(k)))
		if errS != nil || errE != nil || (ofS != nil) != there || (ofE != nil) != there {
			t.Errorf("key %d: %q, %v, and %q, %v", k, ofS, errS, ofE, errE)
		}
	}
	must(t, errors.Join(s.Close(), e.Close(), b.Close()))
}

// TestWithoutLog turns off the write-ahead log. Store and filter still agree after a Close.
func TestWithoutLog(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir, o, g := t.TempDir(), newest(), guardtest.Quiet(deletes)
		o.DisableWAL = true
		d := open(t, dir, o, g)
		must(t, errors.Join(d.Set(key("a"), nil, pebble.NoSync), d.Set(key("b"), nil, pebble.NoSync), d.Delete(key("a"), pebble.NoSync)))
		b := d.NewBatch()
		must(t, b.Set(key("c"), nil, nil))
		if err := b.Commit(pebble.Sync); !errors.Is(err, errNoLog) {
			t.Error(err)
		}
		must(t, errors.Join(b.Commit(pebble.NoSync), b.Close())) // b has not changed
		must(t, d.Ingest(t.Context(), []string{table(t, "1", setAll("d"))}))
		mustKeep(t, d, 3)
		must(t, d.Close())
		mustKeep(t, open(t, dir, o, g), 3)
	})
}

// TestReadOnly opens a store for reading. No write reaches the filter.
func TestReadOnly(t *testing.T) {
	dir, o, file, span := t.TempDir(), newest(), table(t, "1", setAll("x")), pebble.KeyRange{Start: key("a"), End: key("z")}
	must(t, open(t, dir, newest(), nil).Close())
	o.ReadOnly = true
	d := open(t, dir, o, nil)
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
	must(t, b.Close())
}

// TestComparer: a comparer that may take keys with different bytes for the same key is refused.
func TestComparer(t *testing.T) {
	c, o := *pebble.DefaultComparer, newest()
	c.Name = "another"
	o.Comparer = &c
	if _, err := Open(t.TempDir(), o, nil); !errors.Is(err, ErrNotFollowed) {
		t.Error(err)
	}
}

// TestOnePath opens two stores with the same path of the filter. The second store goes without a
// filter.
func TestOnePath(t *testing.T) {
	g := &guard.Options{Path: filepath.Join(t.TempDir(), "f")}
	a := open(t, t.TempDir(), newest(), g)
	guardtest.Set(t, a, 0, 1)
	b := open(t, t.TempDir(), newest(), g)
	guardtest.Set(t, b, 1, 2)
	if s := b.GuardStats(); s.State != "off" {
		t.Errorf("%+v", s)
	}
	guardtest.MustHideNone(t, b)
	must(t, b.Close())
	mustKeep(t, a, 1)
}

// TestLargeIngest ingests more keys than one transaction takes.
func TestLargeIngest(t *testing.T) {
	const n = ingestAtOnce*5/2 + 1
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := open(t, t.TempDir(), newest(), &guard.Options{Deletes: deletes})
		file := table(t, "1", func(w *sstable.Writer) (err error) {
			for i := 0; i < n && err == nil; i++ {
				err = w.Set(number(i), nil)
			}
			return err
		})
		must(t, d.Ingest(t.Context(), []string{file}))
		mustKeep(t, d, n)
	})
}

// TestLeaks makes ingests fail. When the store is then closed, Pebble reports what they have left open.
func TestLeaks(t *testing.T) {
	d := open(t, t.TempDir(), newest(), nil)
	bad := filepath.Join(t.TempDir(), "bad")
	must(t, os.WriteFile(bad, bytes.Repeat([]byte("bad"), 1000), 0o600))
	good := table(t, "1", setAll("a"))
	for i, paths := range [][]string{{bad}, {good, bad}, {good, "nowhere"}, {good, table(t, "2", setAll(guardPrefix))}} {
		if err := d.Ingest(t.Context(), paths); err == nil {
			t.Errorf("%d: no error", i)
		}
	}
	mustKeep(t, d, 0)
}

// TestOverwriteAndRangeDelete removes a key while a transaction overwrites it.
func TestOverwriteAndRangeDelete(t *testing.T) {
	for name, remove := range map[string]func(d *DB) error{
		"DeleteRange":  func(d *DB) error { return d.DeleteRange(key("a"), key("z"), nil) },
		"SingleDelete": func(d *DB) error { return d.SingleDelete(key("k"), nil) },
		"Excise":       func(d *DB) error { return d.Excise(t.Context(), pebble.KeyRange{Start: key("a"), End: key("z")}) },
		"Ingest": func(d *DB) error {
			return d.Ingest(t.Context(), []string{table(t, "1", func(w *sstable.Writer) error { return w.Delete(key("k")) })})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir(), newest(), guardtest.Quiet(guard.Exact))
			must(t, d.Set(key("k"), nil, nil))
			b := d.NewBatch()
			must(t, b.Set(key("k"), []byte("again"), nil))
			removed := make(chan error, 1)
			// The transaction knows that the store has the key. So the key must stay until the
			// transaction is done, or a rebuild would miss it.
			err := d.DB.commit(b.Batch, pebble.NoSync, func(b *pebble.Batch, o *pebble.WriteOptions) error {
				go func() { removed <- remove(d.DB) }()
				for range 20 {
					if err := d.guard.Rebuild(t.Context()); err != nil {
						return err
					}
				}
				if len(removed) > 0 {
					t.Error("the key is removed before the transaction is done")
				}
				return d.DB.DB.Apply(b, o)
			})
			must(t, errors.Join(err, <-removed, b.Close(), d.Set(key("k"), nil, nil)))
			mustKeep(t, d, 1)
		})
	}
}

// TestExciseInRebuild excises keys after a rebuild has taken its snapshot, and before the rebuild reads
// it.
func TestExciseInRebuild(t *testing.T) {
	d := open(t, t.TempDir(), newest(), nil)
	guardtest.Set(t, d, 0, 100)
	must(t, d.Flush())
	s, err := d.store.Snapshot()
	must(t, err)
	must(t, d.Excise(t.Context(), pebble.KeyRange{Start: key("a"), End: key("z")}))
	n := 0
	for _, err := range s.Keys {
		must(t, err)
		n++
	}
	if must(t, s.Close()); n != 100 {
		t.Errorf("%d keys", n)
	}
}

// TestFailedCommit commits a batch that the guard refuses, and then uses it again. A commit adds
// nothing to a batch.
func TestFailedCommit(t *testing.T) {
	d := open(t, t.TempDir(), newest(), nil)
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
	n, size := b.Count(), b.Len()
	if must(t, b.Commit(nil)); b.Count() != n || b.Len() != size {
		t.Errorf("the batch has %d operations in %d bytes, and had %d in %d", b.Count(), b.Len(), n, size)
	}
	must(t, b.Close())
	mustKeep(t, d, 1)
}

// TestPrefix covers G6: with another prefix, the name of the owner is still reserved, but longer keys
// that begin with it belong to the program. The program may delete a range up to the prefix.
func TestPrefix(t *testing.T) {
	for _, prefix := range []string{"\x00a", "b", guard.OwnerName + "yz", "\xff\xff"} {
		guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
			dir, g, longer := t.TempDir(), guardtest.Quiet(deletes), key(guard.OwnerName+"x")
			g.Prefix = key(prefix)
			d := open(t, dir, newest(), g)
			for _, name := range []string{guard.OwnerName, prefix + "s"} {
				if err := d.Set(key(name), nil, nil); err != ErrReserved {
					t.Errorf("Set %q: %v", name, err)
				}
			}
			guardtest.Set(t, d, 0, 100)
			must(t, d.Set(longer, key("mine"), nil))
			if prefix == "\xff\xff" {
				if err := d.DeleteRange(number(50), key(prefix+"\x00"), nil); !errors.Is(err, ErrReserved) {
					t.Error(err)
				}
				must(t, d.DeleteRange(number(50), key(prefix), nil))
				guardtest.Set(t, d, 50, 100)
			}
			it, err := d.NewIter(nil)
			must(t, err)
			if !it.First() || !bytes.Equal(it.Key(), longer) {
				t.Errorf("an iterator shows %q", it.Key())
			}
			must(t, it.Close())
			mustKeep(t, d, 101)
			must(t, d.Close())
			mustKeep(t, suite(0, false).MustServe(t, dir, g).(*testStore), 101)
		})
	}
}

// TestWrongStore commits a batch to another store. Pebble panics, and both stores go on.
func TestWrongStore(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		g := guardtest.Quiet(deletes)
		a, b := open(t, t.TempDir(), newest(), g), open(t, t.TempDir(), newest(), g)
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
		must(t, errors.Join(batch.Close(), a.Set(key("a"), nil, nil), b.Set(key("a"), nil, nil), b.DeleteRange(key("a"), key("b"), nil)))
		mustKeep(t, a, 1)
		mustKeep(t, b, 0)
	})
}
