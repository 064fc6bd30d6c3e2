package badgerguard

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// rows are the rows of the table in the documentation of the package, and promises of transactions.
// Each row begins with 100 keys, and ends with the given number of keys; 0 means any number.
var rows = []struct {
	name string
	do   func(t *testing.T, d *testStore)
	keys int
}{
	{"own writes", testOwnWrites, 100},
	{"conflicts", testConflicts, 102},
	{"no conflicts", testNoConflicts, 109},
	{"full of keys", func(t *testing.T, d *testStore) { fill(t, d, "v") }, 0},
	{"full of bytes", func(t *testing.T, d *testStore) { fill(t, d, string(make([]byte, 1000))) }, 0},
	{"WriteBatch", testWriteBatch, 5001},
	{"GetSequence, GetMergeOperator", testPinned, 102},
	{"Entry.ExpiresAt", testExpiry, 51},
	{"DropPrefix", testDropPrefix, 101},
	{"DropAll", testDropAll, 100},
	{"RunValueLogGC", testValueLogGC, 0}, // a compaction may bring keys back
	{"Subscribe, Backup", testStreams, 110},
}

func TestRows(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
				dir, g := t.TempDir(), guardtest.Quiet(deletes)
				d := open(t, small(dir), g)
				guardtest.Set(t, d, 0, 100)
				row.do(t, d)
				if n := guardtest.MustKeep(t, d); n != row.keys && row.keys > 0 {
					t.Errorf("%d keys, not %d", n, row.keys)
				}
				must(t, d.Close())
				engine(true, false).MustServe(t, dir, g)
			})
		})
	}
}

var must = guardtest.Must

func open(tb testing.TB, o badger.Options, g *guard.Options) *testStore {
	tb.Helper()
	d, err := openStore(o, g)
	return guardtest.Opened(tb, d, err)
}

func number(i int) []byte { return []byte(guardtest.Number(i)) }

// put puts keys in one transaction.
func (d *testStore) put(keys ...[]byte) error {
	return d.Update(func(txn *Txn) (err error) {
		for _, key := range keys {
			err = errors.Join(err, txn.Set(key, []byte("v")))
		}
		return err
	})
}

func (d *testStore) has(t *testing.T, key string) bool {
	t.Helper()
	value, err := d.Get(key)
	must(t, err)
	return value != nil
}

// testOwnWrites reads keys in the transaction that has written them. The filter is asked only if Badger
// need not see the read.
func testOwnWrites(t *testing.T, d *testStore) {
	blind := open(t, small(t.TempDir()).WithDetectConflicts(false), guardtest.Quiet(guard.Rebuild))
	guardtest.Set(t, blind, 0, 100)
	for _, d := range []*testStore{d, blind} {
		txn, before := d.NewTransaction(true), d.GuardStats().Skipped
		must(t, errors.Join(txn.Set(number(100), []byte("new")), txn.Delete(number(1))))
		for key, there := range map[int]bool{0: true, 1: false, 100: true, 101: false} {
			_, err := txn.Get(number(key))
			if has, hasErr := txn.Has(number(key)); (err == nil) != there || has != there || hasErr != nil {
				t.Errorf("key %d: %v, there: %t, %v", key, err, has, hasErr)
			}
		}
		if skipped := d.GuardStats().Skipped - before; (skipped == 0) != d.options.DetectConflicts {
			t.Errorf("%d skipped, detects conflicts: %t", skipped, d.options.DetectConflicts)
		}
		txn.Discard()
		if _, err := d.DB.Has(nil); err != badger.ErrEmptyKey {
			t.Errorf("no key: %v", err)
		}
		_, get := txn.Get(number(200))
		if there, has := txn.Has(number(200)); get != badger.ErrDiscardedTxn || has != get || there {
			t.Errorf("after Discard: %v, %v", get, has)
		}
	}
}

// testConflicts runs a transaction that finds a key absent, while another transaction creates the key.
// The first transaction fails, and the filter drops its keys.
func testConflicts(t *testing.T, d *testStore) {
	before := d.GuardStats().Keys
	for _, with := range []bool{false, true} {
		txn := d.NewTransaction(true)
		key := number(100)
		if with {
			key = number(101)
		}
		if _, err := txn.Get(key); err != badger.ErrKeyNotFound {
			t.Fatal(err)
		}
		must(t, txn.Set(number(102), []byte("v")))
		must(t, d.put(key))
		ended := make(chan error, 1)
		if with {
			txn.CommitWith(func(err error) { ended <- err })
		} else {
			ended <- txn.Commit()
		}
		if err := <-ended; err != badger.ErrConflict {
			t.Fatal(err)
		}
	}
	must(t, d.guard.Work())
	if n := d.GuardStats().Keys - before; d.exact && n != 2 {
		t.Errorf("%d more keys: keys that were not committed stay", n)
	}
}

// testNoConflicts runs transactions that do not conflict without the guard: they write blindly, or
// iterate over the keys while entries of the guard change. With the guard they do not conflict either.
func testNoConflicts(t *testing.T, d *testStore) {
	a, b, reader := d.NewTransaction(true), d.NewTransaction(true), d.NewTransaction(true)
	defer reader.Discard()
	it := reader.NewIterator(badger.DefaultIteratorOptions)
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		it.Item()
		n++
	}
	it.Close()
	must(t, reader.Set(number(200), []byte("w")))
	for i := 100; i < 110; i++ {
		must(t, errors.Join(a.Set(number(i), []byte("a")), b.Set(number(i), []byte("b"))))
	}
	must(t, errors.Join(a.Delete(number(105)), b.Delete(number(105))))
	must(t, errors.Join(a.Commit(), b.Commit(), d.guard.Work()))
	if err := reader.Commit(); n != 100 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
	must(t, d.Update(func(txn *Txn) error { return txn.Delete(number(200)) }))
	empty, ended := d.NewTransaction(true), make(chan error)
	empty.CommitWith(func(err error) { ended <- err })
	must(t, <-ended)
}

// fill commits a transaction that has no room for the entries of the guard.
func fill(t *testing.T, d *testStore, value string) {
	txn := d.NewTransaction(true)
	defer txn.Discard()
	must(t, txn.Delete(number(0)))
	n, err := 100, error(nil)
	for ; err == nil; n++ {
		err = txn.Set(number(n), []byte(value))
	}
	if err != badger.ErrTxnTooBig {
		t.Fatal(err)
	}
	must(t, txn.Commit())
	guardtest.MustHave(t, d, 1, n-1, n+100)
}

func testWriteBatch(t *testing.T, d *testStore) {
	const n = 10_000 // more than fit into a few transactions
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
	b = d.NewWriteBatch()
	must(t, b.Set(number(n+1), nil))
	b.Cancel()
	guardtest.MustHave(t, d, n/2, n+1, n+100)
	b = d.NewWriteBatch()
	defer b.Cancel()
	if err := b.Set(d.store.key([]byte("x")), nil); err != ErrReserved {
		t.Errorf("a reserved key: %v", err)
	}
	testFailedBatch(t, d)
}

// testFailedBatch makes a transaction of a batch fail. Nothing is committed after it.
func testFailedBatch(t *testing.T, d *testStore) {
	b := d.NewWriteBatch()
	defer b.Cancel()
	if _, err := b.txn.Get(number(0)); err != badger.ErrKeyNotFound { // no batch reads, so this makes a conflict
		t.Fatal(err)
	}
	must(t, d.put(number(0)))
	must(t, b.Set(number(1), nil))
	b.commit()
	guardtest.Eventually(t, d, "a conflict", func(guard.Stats) bool { return b.Error() == badger.ErrConflict })
	b.commit()
	if err := b.Flush(); err != badger.ErrConflict {
		t.Error(err)
	}
	must(t, d.Update(func(txn *Txn) error { return txn.Delete(number(0)) }))
}

// testPinned uses keys that Badger writes by itself. Nothing removes them from the filter.
func testPinned(t *testing.T, d *testStore) {
	add := func(a, b []byte) []byte { return append(bytes.Clone(a), b...) }
	key := []byte("m/")
	m := d.GetMergeOperator(key, add, time.Hour)
	copy(key, "s/") // the caller may use its slices again
	s, err := d.GetSequence(key, 3)
	must(t, err)
	copy(key, "x/")
	for i := range uint64(8) {
		if n, err := s.Next(); err != nil || n != i {
			t.Fatalf("%d, %v", n, err)
		}
		guardtest.Rebuild(t, d)
		must(t, d.guard.Work())
		must(t, m.Add([]byte{'a' + byte(i)}))
		if d.has(t, "x/") || !d.has(t, "s/") || !d.has(t, "m/") {
			t.Fatalf("hidden: %+v", d.GuardStats())
		}
		if i == 4 {
			must(t, d.Update(func(txn *Txn) error { return txn.Delete([]byte("m/")) }))
		}
	}
	must(t, s.Release())
	if v, err := m.Get(); err != nil || string(v) != "fgh" {
		t.Errorf("%q, %v", v, err)
	}
	m.Stop()
	if s, err = d.GetSequence([]byte("s/"), 3); err == nil {
		if n, err := s.Next(); err != nil || n != 8 {
			t.Errorf("%d, %v", n, err)
		}
	}
	_, reserved := d.GetSequence(d.store.key([]byte("s")), 1)
	m = d.GetMergeOperator(d.store.key([]byte("s")), add, time.Millisecond)
	_, got := m.Get()
	for _, err := range []error{reserved, m.Add(nil), got} {
		if err != ErrReserved {
			t.Errorf("a reserved key: %v", err)
		}
	}
	m.Stop()
}

func testExpiry(t *testing.T, d *testStore) {
	put := func(from, to int, ttl time.Duration) {
		must(t, d.Update(func(txn *Txn) (err error) {
			for i := from; i < to; i++ {
				err = errors.Join(err, txn.SetEntry(badger.NewEntry(number(i), []byte("v")).WithTTL(ttl)))
			}
			return err
		}))
	}
	put(0, 100, -time.Minute) // these keys have expired already
	guardtest.MustHave(t, d, 0, 0, 300)
	put(0, 50, time.Hour)
	guardtest.MustHave(t, d, 0, 50, 300)
	// A key that expires during a transaction stays in the filter if the transaction puts it again.
	put(50, 51, time.Second)
	txn := d.NewTransaction(true)
	must(t, txn.Set(number(50), []byte("stays")))
	tx, err := txn.prepare()
	must(t, err)
	guardtest.Eventually(t, d, "expired", func(guard.Stats) bool {
		return d.DB.DB.View(func(txn *badger.Txn) error { _, err := txn.Get(number(50)); return err }) == badger.ErrKeyNotFound
	})
	rebuilt := make(chan error)
	go func() { rebuilt <- d.guard.Rebuild(t.Context()) }()
	err = txn.Txn.Commit()
	txn.done(tx, err)
	must(t, errors.Join(err, <-rebuilt))
	guardtest.MustHave(t, d, 0, 51, 300)
}

// TestExpiryRebuilds checks that the filter is rebuilt when many keys have expired, since absent keys
// then pass it.
func TestExpiryRebuilds(t *testing.T) {
	d := open(t, small(t.TempDir()), guardtest.Often(guard.Rebuild))
	guardtest.Set(t, d, 0, 100)
	must(t, d.Update(func(txn *Txn) (err error) {
		for i := 100; i < 800; i++ {
			err = errors.Join(err, txn.SetEntry(badger.NewEntry(number(i), []byte("v")).WithTTL(-time.Minute)))
		}
		return err
	}))
	guardtest.Eventually(t, d, "rebuilt", func(s guard.Stats) bool {
		guardtest.MustHave(t, d, 0, 100, 900)
		return s.Rebuilds > 0
	})
}

func testDropPrefix(t *testing.T, d *testStore) {
	must(t, d.put([]byte("other/")))
	must(t, d.DropPrefix([]byte("k")))
	guardtest.MustHave(t, d, 0, 0, 1000)
	guardtest.MustKnow(t, d, "other/", true)
	guardtest.MustKnow(t, d, guardtest.Number(7), false)
	guardtest.Set(t, d, 100, 200)
	guardtest.MustHave(t, d, 100, 200, 1000)
	for _, p := range [][]byte{nil, {}, d.store.prefix[:3], d.store.prefix, d.store.key([]byte("s"))} {
		if err := d.DropPrefix([]byte("other"), p); err != ErrReserved {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// testDropAll drops all keys, and the owner with them. After that, the guard is the owner again.
func testDropAll(t *testing.T, d *testStore) {
	must(t, d.DropAll())
	guardtest.MustHave(t, d, 0, 0, 1000)
	if s := d.GuardStats(); s.Keys != 0 || s.State != "serving" {
		t.Errorf("%+v", s)
	}
	guardtest.Set(t, d, 100, 200)
	guardtest.MustHave(t, d, 100, 200, 1000)
}

// TestCrashInDrop opens a store as a crash during a drop leaves it.
func TestCrashInDrop(t *testing.T) {
	d, dir := open(t, small(t.TempDir()), guardtest.Quiet(guard.Rebuild)), t.TempDir()
	guardtest.Set(t, d, 0, 100)
	must(t, d.DB.drop(func() error {
		if there, err := d.DB.Has(number(1000)); there || err != nil || d.GuardStats().State != "building" {
			t.Errorf("while keys are dropped: %t, %v; %+v", there, err, d.GuardStats())
		}
		return guardtest.CopyDir(dir, d.options.Dir, "LOCK")
	}))
	c := open(t, small(dir), guardtest.Quiet(guard.Rebuild))
	guardtest.Eventually(t, c, "a filter", guardtest.Serving)
	if s := c.GuardStats(); s.Rebuilds != 1 {
		t.Errorf("%+v", s)
	}
	guardtest.MustHave(t, c, 0, 100, 200)
}

// TestDoubtBeforeDrop drops keys between calls of Doubt and Rebuild. A key that the program puts without
// the guard after the drop is not hidden. A drop that panics locks nobody out.
func TestDoubtBeforeDrop(t *testing.T) {
	d := open(t, small(t.TempDir()), guardtest.Quiet(guard.Rebuild))
	must(t, d.guard.Doubt())
	func() {
		defer func() { recover() }()
		d.DB.drop(func() error { panic("in Badger") })
	}()
	if !d.store.drop.TryLock() {
		t.Fatal("the lock is held after a panic")
	}
	d.store.drop.Unlock()
	must(t, d.DropPrefix([]byte("nothing")))
	must(t, d.DB.DB.Update(func(txn *badger.Txn) error { return txn.Set(number(0), nil) }))
	guardtest.MustHave(t, d, 0, 1, 2)
	guardtest.Rebuild(t, d)
	guardtest.MustHave(t, d, 0, 1, 2)
}

// TestCommitBesideDrop begins to drop all keys between the Prepare of a transaction that overwrites a
// key, and its commit. The key is not hidden.
func TestCommitBesideDrop(t *testing.T) {
	d := open(t, small(t.TempDir()), guardtest.Quiet(guard.Exact))
	guardtest.Set(t, d, 0, 10)
	txn := d.NewTransaction(true)
	must(t, txn.Set(number(0), nil))
	tx, err := txn.prepare()
	must(t, err)
	dropped := make(chan error, 1)
	go func() { dropped <- d.DropAll() }()
	for len(dropped) == 0 && d.commits.TryRLock() { // until it has ended, or waits for the commit
		d.commits.RUnlock()
		runtime.Gosched()
	}
	err = txn.Txn.Commit()
	txn.done(tx, err)
	must(t, errors.Join(err, <-dropped))
	guardtest.MustHideNone(t, d)
}

func TestBanNamespace(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		o, g := small(t.TempDir()).WithNamespaceOffset(1), guardtest.Quiet(deletes)
		d := open(t, o, g)
		var kept, banned [][]byte
		for i := range 20 {
			kept, banned = append(kept, fmt.Appendf(nil, "k%08d/%d", 1, i)), append(banned, fmt.Appendf(nil, "k%08d/%d", 2, i))
		}
		must(t, d.put(append(kept, banned...)...))
		must(t, d.BanNamespace(0x3030303030303032)) // "00000002"
		guardtest.Rebuild(t, d)
		must(t, d.View(func(txn *Txn) error {
			for i := range kept {
				_, err := txn.Get(kept[i])
				_, is := txn.Get(banned[i])
				if _, has := d.DB.Has(banned[i]); err != nil || is != badger.ErrBannedKey || has != is {
					t.Errorf("%v, banned: %v, %v", err, is, has)
				}
			}
			return nil
		}))
		if err := d.put(banned...); !errors.Is(err, badger.ErrBannedKey) {
			t.Errorf("put: %v", err)
		}
		if err := d.BanNamespace(0x6d6d617066696c74); err != ErrReserved { // "mmapfilt"
			t.Errorf("the namespace of the entries: %v", err)
		}
		must(t, d.Close())
		if _, err := d.DB.Has(kept[0]); err != badger.ErrDBClosed {
			t.Errorf("closed: %v", err)
		}
		// Without an offset, the banned keys are visible again.
		o.NamespaceOffset = -1
		d = open(t, o, g)
		for i := range banned {
			if !d.has(t, string(banned[i])) {
				t.Fatalf("%q is hidden: %+v", banned[i], d.GuardStats())
			}
		}
		guardtest.Eventually(t, d, "a filter", guardtest.Serving)
		if n := guardtest.MustKeep(t, d); n != 40 {
			t.Errorf("%d keys", n)
		}
		must(t, d.Close())
		o.NamespaceOffset = 12 // in the numbers of the entries
		if _, err := Open(o, g); !errors.Is(err, ErrReserved) {
			t.Errorf("Open: %v", err)
		}
		// With another prefix, the owner is in a namespace of its own.
		g.Prefix = []byte("0123456789")
		d = open(t, small(t.TempDir()).WithNamespaceOffset(1), g)
		for namespace, want := range map[uint64]error{0x6d6d617066696c74: ErrReserved, 0x3132333435363738: ErrReserved, 7: nil} {
			if err := d.BanNamespace(namespace); err != want {
				t.Errorf("%x: %v", namespace, err)
			}
		}
	})
}

func testValueLogGC(t *testing.T, d *testStore) {
	value := bytes.Repeat([]byte("v"), 4000)
	for round := range 3 {
		for i := range 2000 {
			must(t, d.Update(func(txn *Txn) error { return txn.Set(number(i), append(value, byte(round))) }))
		}
	}
	guardtest.Remove(t, d, 1000, 2000)
	must(t, d.Flatten(2))
	for d.RunValueLogGC(0.1) == nil {
	}
	guardtest.MustHave(t, d, 0, 1000, 3000)
	must(t, d.DB.drop(func() error {
		if err := d.RunValueLogGC(0.1); err != badger.ErrRejected {
			t.Errorf("while keys are dropped: %v", err)
		}
		return nil
	}))
}
