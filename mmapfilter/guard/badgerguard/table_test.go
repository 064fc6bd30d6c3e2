package badgerguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// quiet returns options of a guard that does nothing by itself while a test lasts.
func quiet(deletes guard.DeleteMode) *guard.Options {
	g := often(deletes)
	g.CommitInterval = time.Hour
	return g
}

// reopen closes a DB and opens it again: with its filter, or the test fails.
func reopen(t *testing.T, d *DB, g *guard.Options) *DB {
	t.Helper()
	must(t, d.Close())
	d = mustOpen(t, small(d.options.Dir), g)
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
		t.Fatalf("the filter is not used again: %+v", s)
	}
	return d
}

// skips reports whether looking a key up does not reach the store.
func skips(t *testing.T, d *DB, key []byte) bool {
	t.Helper()
	before := d.GuardStats().Skipped
	if has(t, d, key) {
		t.Fatalf("%q is there", key)
	}
	return d.GuardStats().Skipped > before
}

// TestSetAndDelete covers G3: keys that are set twice are in the filter once, and those that are deleted
// leave it with deletes: Exact, and stay with deletes: Rebuild.
func TestSetAndDelete(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		set(t, d, 0, 100)
		set(t, d, 0, 100)                                // counted once
		if n := d.GuardStats().Keys; n > 100 || n < 90 { // two may look the same
			t.Errorf("%d keys in the filter", n)
		}
		remove(t, d, 0, 50)
		remove(t, d, 0, 50)
		must(t, d.Guard().Work())
		if n := d.GuardStats().Keys; (n == 50) != (deletes == guard.Exact) {
			t.Errorf("%d keys in the filter after deletes", n)
		}
		set(t, d, 0, 50)
		mustHave(t, d, 0, 100, 300)
		if n := mustHideNone(t, reopen(t, d, quiet(deletes))); n != 100 {
			t.Errorf("%d keys", n)
		}
	})
}

func TestOwnWrites(t *testing.T) {
	for _, conflicts := range []bool{true, false} {
		d := mustOpen(t, small(t.TempDir()).WithDetectConflicts(conflicts), quiet(guard.Rebuild))
		set(t, d, 0, 10)
		txn := d.NewTransaction(true)
		must(t, txn.Set(number(100), []byte("new")))
		must(t, txn.Delete(number(1)))
		for key, there := range map[int]bool{0: true, 1: false, 100: true, 101: false} {
			if _, err := txn.Get(number(key)); (err == nil) != there {
				t.Errorf("conflicts %t, key %d: %v", conflicts, key, err)
			}
		}
		if s := d.GuardStats(); conflicts == (s.Skipped > 0) {
			t.Errorf("conflicts %t: %+v", conflicts, s)
		}
		txn.Discard()
		if _, err := txn.Get(number(200)); err != badger.ErrDiscardedTxn {
			t.Errorf("after Discard: %v", err)
		}
		mustHave(t, d, 0, 10, 300)
	}
}

// A transaction that has read that a key is absent fails if another one creates it.
func TestReadOfAbsentKeyConflicts(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		txn := d.NewTransaction(true)
		defer txn.Discard()
		if _, err := txn.Get(number(1)); err != badger.ErrKeyNotFound {
			t.Fatal(err)
		}
		must(t, txn.Set(number(2), []byte("v")))
		set(t, d, 1, 2)
		if err := txn.Commit(); err != badger.ErrConflict {
			t.Fatalf("Commit: %v", err)
		}
		mustHave(t, d, 1, 2, 100)
		if n := d.GuardStats().Keys; deletes == guard.Exact && n != 1 {
			t.Errorf("%d keys in the filter: what was not committed stays", n)
		}
		mustHideNone(t, reopen(t, d, quiet(deletes)))
	})
}

// Writing blindly does not conflict, with the guard either.
func TestBlindWritesDoNotConflict(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		set(t, d, 0, 10)
		a, b := d.NewTransaction(true), d.NewTransaction(true)
		for i := range 10 {
			must(t, a.Set(number(i), []byte("a")))
			must(t, b.Delete(number(i)))
		}
		must(t, a.Commit())
		must(t, b.Commit())
		mustHave(t, d, 0, 0, 100)
	})
}

// Iterating in a transaction that writes does not read the entries of others.
func TestIteratorDoesNotConflict(t *testing.T) {
	d := mustOpen(t, small(t.TempDir()), quiet(guard.Rebuild))
	set(t, d, 0, 10)
	txn := d.NewTransaction(true)
	defer txn.Discard()
	it := txn.NewIterator(badger.DefaultIteratorOptions)
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		it.Item()
		n++
	}
	it.Close()
	must(t, txn.Set(number(0), []byte("w")))
	set(t, d, 100, 110)
	must(t, d.Guard().Work())
	if err := txn.Commit(); n != 10 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
}

func TestCommitWith(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		var all sync.WaitGroup
		for i := range 200 { // some keys come twice
			txn := d.NewTransaction(true)
			must(t, txn.Set(number(i/2), []byte("v")))
			all.Add(1)
			txn.CommitWith(func(err error) {
				if err != nil {
					t.Errorf("%v", err)
				}
				all.Done()
			})
		}
		all.Wait()
		mustHave(t, d, 0, 100, 300)
		txn := d.NewTransaction(true)
		ended := make(chan error)
		txn.CommitWith(func(err error) { ended <- err })
		if err := <-ended; err != nil {
			t.Errorf("an empty transaction: %v", err)
		}
		mustHideNone(t, reopen(t, d, quiet(deletes)))
	})
}

// A transaction that has no room for the guard's entries is committed all the same.
func TestFullTransaction(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		for _, full := range []string{"count", "size"} {
			t.Run(full, func(t *testing.T) {
				d := mustOpen(t, small(t.TempDir()), quiet(deletes))
				set(t, d, 0, 10)
				value := []byte("v")
				if full == "size" {
					value = bytes.Repeat(value, 1000)
				}
				txn := d.NewTransaction(true)
				defer txn.Discard()
				must(t, txn.Delete(number(0)))
				n := 10
				for ; ; n++ {
					if err := txn.Set(number(n), value); err == badger.ErrTxnTooBig {
						break
					} else if err != nil {
						t.Fatal(err)
					}
				}
				must(t, txn.Commit())
				must(t, d.Guard().Work())
				t.Logf("%d keys", n)
				mustHave(t, d, 1, n, n+1000)
				mustHideNone(t, reopen(t, d, quiet(deletes)))
			})
		}
	})
}

func TestWriteBatch(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), often(deletes))
		const n = 30_000 // more than fit into a few transactions
		b := d.NewWriteBatch()
		b.SetMaxPendingTxns(3)
		for i := range n {
			must(t, b.Set(number(i), []byte("v")))
		}
		for i := range n / 2 {
			must(t, b.Delete(number(i)))
		}
		must(t, b.SetEntry(badger.NewEntry(number(n), bytes.Repeat([]byte("v"), 2000))))
		must(t, b.Flush())
		b.Cancel()
		mustHave(t, d, n/2, n+1, 2*n)
		b = d.NewWriteBatch()
		must(t, b.Set(number(n+1), nil))
		b.Cancel()
		mustHave(t, d, n/2, n+1, 2*n)
		b = d.NewWriteBatch()
		defer b.Cancel()
		for i, err := range []error{b.Write(nil), b.WriteList(nil), b.SetEntryAt(nil, 1), b.DeleteAt(nil, 1)} {
			if !errors.Is(err, ErrNotFollowed) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := b.Set(d.store.key([]byte("x")), nil); err != ErrReserved {
			t.Errorf("a reserved key: %v", err)
		}
		mustHideNone(t, reopen(t, d, often(deletes)))
	})
}

func TestSequence(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		s, err := d.GetSequence([]byte("s"), 3)
		must(t, err)
		for i := range uint64(8) {
			if n, err := s.Next(); err != nil || n != i {
				t.Fatalf("%d, %v", n, err)
			}
		}
		must(t, s.Release())
		if !has(t, d, []byte("s")) {
			t.Fatal("the lease is hidden")
		}
		d = reopen(t, d, quiet(deletes))
		theirs, err := d.DB.GetSequence([]byte("s"), 3) // Badger's own goes on
		must(t, err)
		if n, err := theirs.Next(); err != nil || n != 8 {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := d.GetSequence(d.store.key([]byte("s")), 1); err != ErrReserved {
			t.Errorf("a reserved key: %v", err)
		}
		mustHideNone(t, d)
	})
}

func TestMergeOperator(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		add := func(a, b []byte) []byte { return append(bytes.Clone(a), b...) }
		m := d.GetMergeOperator([]byte("m"), add, time.Hour)
		// Nothing takes the key out of the filter.
		must(t, d.Guard().Rebuild(context.Background()))
		must(t, d.Guard().Work())
		must(t, m.Add([]byte("a")))
		must(t, m.Add([]byte("b")))
		if v, err := m.Get(); err != nil || string(v) != "ab" || !has(t, d, []byte("m")) {
			t.Fatalf("%q, %v", v, err)
		}
		must(t, d.Update(func(txn *Txn) error { return txn.Delete([]byte("m")) }))
		must(t, d.Guard().Work())
		must(t, d.Guard().Rebuild(context.Background()))
		must(t, m.Add([]byte("c")))
		if !has(t, d, []byte("m")) {
			t.Fatal("hidden after a delete")
		}
		m.Stop()
		mustHideNone(t, reopen(t, d, quiet(deletes)))
		reserved := d.GetMergeOperator(d.store.key([]byte("s")), add, time.Millisecond)
		if err := reserved.Add(nil); err != ErrReserved {
			t.Errorf("a reserved key: %v", err)
		}
		reserved.Stop()
	})
}

func TestExpiry(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		put := func(i int, ttl time.Duration) {
			must(t, d.Update(func(txn *Txn) error {
				e := badger.NewEntry(number(i), []byte("v"))
				if ttl != 0 {
					e = e.WithTTL(ttl)
				}
				return txn.SetEntry(e)
			}))
		}
		for i := range 100 {
			put(i, -time.Minute) // they have expired
		}
		mustHave(t, d, 0, 0, 300)
		for i := range 50 {
			put(i, time.Hour)
		}
		mustHave(t, d, 0, 50, 300)
		// What expires meanwhile stays in the filter if a transaction counts on it.
		put(50, time.Second)
		txn := d.NewTransaction(true)
		must(t, txn.Set(number(50), []byte("stays")))
		c, err := txn.prepare()
		must(t, err)
		waitFor(t, "expired", func() bool { return !raw(t, d, number(50)) })
		rebuilt := make(chan error)
		go func() { rebuilt <- d.Guard().Rebuild(context.Background()) }()
		err = txn.Txn.Commit()
		c.done(err)
		must(t, err)
		must(t, <-rebuilt)
		mustHave(t, d, 0, 51, 300)
		mustHideNone(t, reopen(t, d, quiet(deletes)))
	})
}

// The filter is rebuilt when many keys have expired, since absent keys pass it.
func TestExpiryRebuilds(t *testing.T) {
	d := mustOpen(t, small(t.TempDir()), often(guard.Rebuild))
	set(t, d, 0, 100)
	must(t, d.Update(func(txn *Txn) error {
		for i := 100; i < 800; i++ {
			if err := txn.SetEntry(badger.NewEntry(number(i), []byte("v")).WithTTL(-time.Minute)); err != nil {
				return err
			}
		}
		return nil
	}))
	waitFor(t, "rebuilt", func() bool {
		mustHave(t, d, 0, 100, 900)
		return d.GuardStats().Rebuilds > 0
	})
}

func TestDropPrefix(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		set(t, d, 0, 1000)
		must(t, d.Update(func(txn *Txn) error { return txn.Set([]byte("other"), []byte("v")) }))
		must(t, d.DropPrefix([]byte("k")))
		mustHave(t, d, 0, 0, 1000)
		if !has(t, d, []byte("other")) || !skips(t, d, number(7)) {
			t.Errorf("%+v", d.GuardStats())
		}
		set(t, d, 100, 200)
		mustHave(t, d, 100, 200, 1000)
		for _, p := range [][]byte{nil, {}, d.store.prefix[:3], d.store.prefix, d.store.key([]byte("s"))} {
			if err := d.DropPrefix([]byte("other"), p); err != ErrReserved {
				t.Errorf("%q: %v", p, err)
			}
		}
		mustHideNone(t, reopen(t, d, quiet(deletes)))
	})
}

func TestDropAll(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), quiet(deletes))
		set(t, d, 0, 1000)
		must(t, d.DropAll())
		mustHave(t, d, 0, 0, 1000)
		if s := d.GuardStats(); s.Keys != 0 || s.State != "serving" {
			t.Errorf("%+v", s)
		}
		set(t, d, 100, 200)
		mustHave(t, d, 100, 200, 1000)
		d = reopen(t, d, quiet(deletes))
		mustHave(t, d, 100, 200, 1000)
		mustHideNone(t, d)
	})
}

// A crash after a drop finds a store that names no filter.
func TestCrashAfterDrop(t *testing.T) {
	d := mustOpen(t, small(t.TempDir()), quiet(guard.Rebuild))
	set(t, d, 0, 100)
	d.store.drop.Lock()
	must(t, d.store.removeStamp())
	d.store.drop.Unlock()
	dir := t.TempDir()
	must(t, guardtest.CopyDir(dir, d.options.Dir, "LOCK"))
	c := mustOpen(t, small(dir), quiet(guard.Rebuild))
	waitServing(t, c)
	if s := c.GuardStats(); s.Rebuilds != 1 {
		t.Errorf("%+v", s)
	}
	mustHave(t, c, 0, 100, 200)
}

func TestBanNamespace(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		o := small(t.TempDir())
		o.NamespaceOffset = 1
		d := mustOpen(t, o, quiet(deletes))
		key := func(namespace uint64, i int) []byte { return fmt.Appendf(nil, "k%s-%d", number(int(namespace))[1:], i) }
		put := func(namespace uint64) error {
			return d.Update(func(txn *Txn) error {
				for i := range 20 {
					if err := txn.Set(key(namespace, i), []byte("v")); err != nil {
						return err
					}
				}
				return nil
			})
		}
		must(t, put(1))
		must(t, put(2))
		must(t, d.BanNamespace(2))
		must(t, d.Guard().Rebuild(context.Background()))
		must(t, d.View(func(txn *Txn) error {
			for i := range 20 {
				if _, err := txn.Get(key(1, i)); err != nil {
					t.Errorf("%v", err)
				}
				if _, err := txn.Get(key(2, i)); err != badger.ErrBannedKey {
					t.Errorf("banned: %v", err)
				}
			}
			return nil
		}))
		if err := put(2); err != badger.ErrBannedKey {
			t.Errorf("put: %v", err)
		}
		own := guardNamespace(d)
		if err := d.BanNamespace(own); err != ErrReserved {
			t.Errorf("the namespace of the entries: %v", err)
		}
		must(t, d.Close())
		// Without an offset the keys are there again.
		o.NamespaceOffset = -1
		d = mustOpen(t, o, quiet(deletes))
		for i := range 20 {
			if !has(t, d, key(2, i)) {
				t.Fatalf("key %d is hidden: %+v", i, d.GuardStats())
			}
		}
		waitServing(t, d)
		if n := mustHideNone(t, d); n != 40 {
			t.Errorf("%d keys", n)
		}
		must(t, d.Close())
		o.NamespaceOffset = 12 // in the numbers of the entries
		if _, err := Open(o, quiet(deletes)); !errors.Is(err, ErrReserved) {
			t.Errorf("Open: %v", err)
		}
	})
}

func guardNamespace(d *DB) (n uint64) {
	for _, b := range d.store.prefix[1:9] {
		n = n<<8 | uint64(b)
	}
	return n
}

func TestValueLogGC(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), often(deletes))
		value := bytes.Repeat([]byte("v"), 4000)
		for round := range 3 {
			for i := range 2000 {
				must(t, d.Update(func(txn *Txn) error { return txn.Set(number(i), append(value, byte(round))) }))
			}
		}
		remove(t, d, 1000, 2000)
		must(t, d.Flatten(2))
		n := 0
		for d.RunValueLogGC(0.1) == nil {
			n++
		}
		t.Logf("%d files rewritten", n)
		mustHave(t, d, 0, 1000, 3000)
		must(t, d.drop(func() error {
			if err := d.RunValueLogGC(0.1); err != badger.ErrRejected {
				t.Errorf("while keys are dropped: %v", err)
			}
			return nil
		}))
		mustHideNone(t, reopen(t, d, often(deletes)))
	})
}

func TestRefused(t *testing.T) {
	d := mustOpen(t, small(t.TempDir()), quiet(guard.Rebuild))
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	add(d.Load(nil, 1))
	_, err := d.NewKVLoader(1)
	add(err)
	_, err = d.NewStreamWriter()
	add(err)
	_, err = d.NewTransactionAt(1, false)
	add(err)
	_, err = d.NewWriteBatchAt(1)
	add(err)
	_, err = d.NewManagedWriteBatch()
	add(err)
	_, err = d.NewStreamAt(1)
	add(err)
	add(d.StreamDB(badger.Options{}))
	add(d.SetDiscardTs(1))
	add(d.NewTransaction(false).CommitAt(1, nil))
	_, err = OpenManaged(small(t.TempDir()), nil)
	add(err)
	_, err = Open(badger.DefaultOptions("").WithInMemory(true), nil)
	add(err)
	managed, err := badger.OpenManaged(small(t.TempDir()))
	must(t, err)
	o := managed.Opts()
	must(t, managed.Close())
	_, err = Open(o, nil)
	add(err)
	for i, err := range errs {
		if !errors.Is(err, ErrNotFollowed) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
