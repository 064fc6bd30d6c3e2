package bboltguard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

func number(i int) []byte { return binary.BigEndian.AppendUint64([]byte("k"), uint64(i)) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func mustBe(tb testing.TB, err, want error) {
	tb.Helper()
	if err != want {
		tb.Fatalf("error %v, want %v", err, want)
	}
}

func mustOpen(tb testing.TB, path string, o *bbolt.Options, g *guard.Options) *DB {
	tb.Helper()
	d, err := Open(path, 0o600, o, g)
	must(tb, err)
	return d
}

// open opens a new store that is closed at the end of the test.
func open(tb testing.TB, o *bbolt.Options, g *guard.Options) *DB {
	tb.Helper()
	d := mustOpen(tb, filepath.Join(tb.TempDir(), "db"), o, g)
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// each runs a test with both ways to delete.
func each(t *testing.T, test func(t *testing.T, g *guard.Options)) {
	for _, deletes := range []guard.DeleteMode{guard.Exact, guard.Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) {
			test(t, &guard.Options{Capacity: 1000, Deletes: deletes, CommitInterval: 5 * time.Millisecond})
		})
	}
}

// fast are the options of a store that is not to be durable.
func fast() *bbolt.Options { return &bbolt.Options{NoSync: true, NoGrowSync: true} }

// eventually waits until a condition holds.
func eventually(tb testing.TB, d *DB, what string, holds func(guard.Stats) bool) {
	tb.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		s := d.GuardStats()
		if holds(s) {
			return
		}
		if time.Now().After(limit) {
			tb.Fatalf("%s: never: %+v", what, s)
		}
	}
}

func serving(s guard.Stats) bool { return s.State == "serving" }

// hidden returns what is hidden in a transaction: keys that it has in the store, and that Get does not
// find; and how many keys there are.
func hidden(t *Tx) (n int, err error) {
	buckets := map[string]*Bucket{}
	walk(t.root.engineBucket, nil, t.db.store.reserved, func(joined []byte) bool {
		n++
		key, names := SplitKey(joined)
		path := string(joined[:len(joined)-len(key)])
		b := buckets[path]
		if b == nil {
			b = t.root
			for _, name := range names {
				b = b.Bucket(name)
			}
			buckets[path] = b
		}
		if b.Get(key) == nil && b.engineBucket.Get(key) != nil {
			err = fmt.Errorf("key %q in %q is hidden; %+v", key, names, t.db.GuardStats())
		}
		return err == nil
	})
	return n, err
}

// mustHaveAll checks that no key is hidden, and returns how many there are.
func mustHaveAll(tb testing.TB, d *DB) (n int) {
	tb.Helper()
	must(tb, d.View(func(t *Tx) (err error) { n, err = hidden(t); return err }))
	return n
}

// update runs a function on the bucket "b".
func update(tb testing.TB, d *DB, fn func(b *Bucket) error) {
	tb.Helper()
	must(tb, d.Update(func(t *Tx) error {
		b, err := t.CreateBucketIfNotExists([]byte("b"))
		if err != nil {
			return err
		}
		return fn(b)
	}))
}

func putAll(tb testing.TB, d *DB, from, to int) {
	tb.Helper()
	for from < to {
		update(tb, d, func(b *Bucket) error {
			for range 500 {
				if from == to {
					break
				}
				if err := b.Put(number(from), []byte("v")); err != nil {
					return err
				}
				from++
			}
			return nil
		})
	}
}

func deleteAll(tb testing.TB, d *DB, from, to int) {
	tb.Helper()
	for from < to {
		update(tb, d, func(b *Bucket) error {
			for range 500 {
				if from == to {
					break
				}
				if err := b.Delete(number(from)); err != nil {
					return err
				}
				from++
			}
			return nil
		})
	}
}

// rebuild rebuilds the filter while others write. If they do so faster, it has no room for what
// they put: the guard tries again then.
func rebuild(d *DB) error {
	err := d.Guard().Rebuild(context.Background())
	if errors.Is(err, mmapfilter.ErrFull) {
		return nil
	}
	return err
}

// same reports whether two values are equal, and both there or not.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
