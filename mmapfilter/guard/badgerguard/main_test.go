package badgerguard

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// valueThreshold is the length of the shortest value that goes to the value log.
const valueThreshold = 1 << 10

// small returns options for tests: memtables are full soon.
func small(dir string) badger.Options {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false)
	o.MemTableSize, o.ValueLogFileSize, o.ValueThreshold = 2<<20, 4<<20, valueThreshold
	o.BlockCacheSize, o.NumCompactors = 4<<20, 2
	return o
}

// often returns options of a guard with all things done often.
func often(deletes guard.DeleteMode) *guard.Options {
	return &guard.Options{Capacity: 1000, Deletes: deletes, CommitInterval: 5 * time.Millisecond}
}

func modes(t *testing.T, f func(t *testing.T, deletes guard.DeleteMode)) {
	for _, deletes := range []guard.DeleteMode{guard.Exact, guard.Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) { f(t, deletes) })
	}
}

func number(i int) []byte { return binary.BigEndian.AppendUint64([]byte("k"), uint64(i)) }

func mustOpen(tb testing.TB, o badger.Options, g *guard.Options) *DB {
	tb.Helper()
	d, err := Open(o, g)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func set(tb testing.TB, d *DB, from, to int) {
	tb.Helper()
	for i := from; i < to; {
		must(tb, d.Update(func(txn *Txn) error {
			for n := 0; i < to && n < 100; n++ {
				if err := txn.Set(number(i), []byte("v")); err != nil {
					return err
				}
				i++
			}
			return nil
		}))
	}
}

func remove(tb testing.TB, d *DB, from, to int) {
	tb.Helper()
	for i := from; i < to; {
		must(tb, d.Update(func(txn *Txn) error {
			for n := 0; i < to && n < 100; n++ {
				if err := txn.Delete(number(i)); err != nil {
					return err
				}
				i++
			}
			return nil
		}))
	}
}

func has(tb testing.TB, d *DB, key []byte) (there bool) {
	tb.Helper()
	must(tb, d.View(func(txn *Txn) error {
		_, err := txn.Get(key)
		if there = err == nil; err == badger.ErrKeyNotFound {
			return nil
		}
		return err
	}))
	return there
}

// raw is has, past the guard.
func raw(tb testing.TB, d *DB, key []byte) (there bool) {
	tb.Helper()
	must(tb, d.DB.View(func(txn *badger.Txn) error {
		_, err := txn.Get(key)
		if there = err == nil; err == badger.ErrKeyNotFound {
			return nil
		}
		return err
	}))
	return there
}

// keysOf returns the keys that the store has, read past the guard, without the reserved ones.
func keysOf(tb testing.TB, d *DB) (keys [][]byte) {
	tb.Helper()
	must(tb, d.DB.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if !d.store.reserved(it.Item().Key()) {
				keys = append(keys, it.Item().KeyCopy(nil))
			}
		}
		return nil
	}))
	return keys
}

// hidden returns keys that the store has and the guard says are absent.
func hidden(tb testing.TB, d *DB) (hidden [][]byte) {
	tb.Helper()
	for _, key := range keysOf(tb, d) {
		if !has(tb, d, key) && raw(tb, d, key) { // and it has not expired meanwhile
			hidden = append(hidden, key)
		}
	}
	return hidden
}

// mustHideNone checks that no key is hidden: now, and after a rebuild. It returns how many there are.
func mustHideNone(tb testing.TB, d *DB) int {
	tb.Helper()
	if h := hidden(tb, d); len(h) > 0 {
		tb.Fatalf("%d keys are hidden, the first is %q; %+v", len(h), h[0], d.GuardStats())
	}
	if d.options.ReadOnly {
		return len(keysOf(tb, d))
	}
	must(tb, d.Guard().Rebuild(context.Background()))
	if h := hidden(tb, d); len(h) > 0 {
		tb.Fatalf("%d keys are hidden after a rebuild, the first is %q; %+v", len(h), h[0], d.GuardStats())
	}
	return len(keysOf(tb, d))
}

// mustHave checks that the keys from from up to to are there, and no others up to most.
func mustHave(tb testing.TB, d *DB, from, to, most int) {
	tb.Helper()
	must(tb, d.View(func(txn *Txn) error {
		for i := range most {
			_, err := txn.Get(number(i))
			if err != nil && err != badger.ErrKeyNotFound || (err == nil) != (i >= from && i < to) {
				tb.Fatalf("key %d: %v; %+v", i, err, d.GuardStats())
			}
		}
		return nil
	}))
}

// waitFor waits for a condition.
func waitFor(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for end := time.Now().Add(15 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%s: not in time", what)
		}
	}
}

func waitServing(tb testing.TB, d *DB) {
	tb.Helper()
	waitFor(tb, fmt.Sprintf("serving: %+v", d.GuardStats()), func() bool { return d.GuardStats().State == "serving" })
}
