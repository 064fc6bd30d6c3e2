package bboltguard

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// rows are the rows of the table in the documentation of the package. Each row begins with the key a in
// the bucket b, and ends with the given number of keys, unless that is negative.
var rows = []struct {
	name string
	do   func(t *testing.T, d testStore)
	keys int
}{
	{"Delete", testDelete, 2},
	{"Update", testUpdate, 3},
	{"Rollback", testRollback, 1},
	{"a commit panics", testCommitPanics, 2},
	{"Batch", testBatch, 102},
	{"Get of own writes", testGetOwn, 1},
	{"CreateBucket", testCreateBucket, 4},
	{"DeleteBucket", testDeleteBucket, 2},
	{"MoveBucket", testMoveBucket, 5},
	{"MoveBucket of a changed bucket", testMoveBucketDirty, -1},
	{"MoveBucket into itself", testMoveIntoItself, 2},
	{"an old bucket", testStale, 1},
	{"NextSequence, SetRootPage", testSequence, 1},
	{"reserved buckets", testReserved, 1},
	{"a copy", testCopy, 1001},
}

func TestRows(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
				d := open(t, nil, guardtest.Quiet(deletes))
				update(t, d, put("a"))
				row.do(t, d)
				must(t, d.guard.Work())
				if n, s := guardtest.MustHideNone(t, d), d.GuardStats(); d.exact && s.Keys != uint64(n) {
					t.Errorf("%d keys: %+v", n, s)
				}
				if n, s := guardtest.MustKeep(t, d), d.GuardStats(); n != row.keys && row.keys > 0 || s.Keys != uint64(n) {
					t.Errorf("%d keys, not %d: %+v", n, row.keys, s)
				}
				must(t, d.Close())
				engine(0).MustServe(t, d.dir, guardtest.Quiet(deletes))
			})
		})
	}
}

var must = guardtest.Must

// open opens a new store.
func open(tb testing.TB, o *bbolt.Options, g *guard.Options) testStore {
	tb.Helper()
	d, err := openStore(tb.TempDir(), o, g)
	return guardtest.Opened(tb, d, err)
}

func mustBe(tb testing.TB, err, want error) {
	tb.Helper()
	if err != want {
		tb.Fatalf("error %v, want %v", err, want)
	}
}

// mustPanic checks that a function panics.
func mustPanic(t *testing.T, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	do()
}

// update runs a function on the bucket "b".
func update(tb testing.TB, d testStore, fn func(b *Bucket) error) {
	tb.Helper()
	must(tb, d.Update(func(t *Tx) error {
		b, err := t.CreateBucketIfNotExists([]byte("b"))
		if err != nil {
			return err
		}
		return fn(b)
	}))
}

func put(keys ...string) func(b *Bucket) error {
	return func(b *Bucket) (err error) {
		for _, key := range keys {
			err = errors.Join(err, b.Put([]byte(key), []byte("v")))
		}
		return err
	}
}

func testDelete(t *testing.T, d testStore) {
	update(t, d, put("b", "c", "d", "e"))
	update(t, d, func(b *Bucket) error {
		must(t, b.Delete([]byte("a")))
		must(t, b.Delete([]byte("nobody")))
		c := b.Cursor()
		for key, _ := c.First(); key != nil; key, _ = c.Next() {
			if string(key) == "c" {
				must(t, c.Delete())
				must(t, c.Delete()) // does nothing
			}
		}
		c.Last()
		c.Next() // stays at the last key
		return c.Delete()
	})
	if s := d.GuardStats(); !d.exact && s.Gone != 3 {
		t.Errorf("%+v", s)
	}
	if d.exact {
		must(t, d.guard.Work())
	} else {
		guardtest.Rebuild(t, d)
	}
	for _, key := range []string{"a", "c", "e", "nobody"} {
		guardtest.MustKnow(t, d, "b/"+key, false)
	}
}

func testUpdate(t *testing.T, d testStore) {
	handled := false
	update(t, d, func(b *Bucket) error {
		must(t, put("b")(b))
		if n := d.GuardStats().Keys; n != 1 {
			t.Errorf("%d keys before the commit", n)
		}
		b.tx.OnCommit(func() { // a handler may make another transaction
			handled = true
			update(t, d, put("a", "b"))
		})
		mustPanic(t, func() { b.tx.Commit() })
		mustPanic(t, func() { b.tx.Rollback() })
		return nil
	})
	if !handled {
		t.Error("OnCommit was not called")
	}
	tx, err := d.Begin(true)
	must(t, err)
	must(t, put("c")(tx.Bucket([]byte("b"))))
	must(t, tx.Commit())
	mustBe(t, tx.Commit(), berrors.ErrTxClosed)
	mustBe(t, tx.Rollback(), berrors.ErrTxClosed)
	tx, err = d.Begin(false)
	must(t, err)
	mustBe(t, tx.Commit(), berrors.ErrTxNotWritable)
	mustBe(t, tx.Bucket([]byte("b")).Put([]byte("d"), nil), berrors.ErrTxNotWritable)
	mustBe(t, tx.Bucket([]byte("b")).Delete([]byte("a")), berrors.ErrTxNotWritable)
	mustBe(t, tx.DeleteBucket([]byte("b")), berrors.ErrTxNotWritable)
	must(t, tx.Rollback())
	if tx.DB() != nil {
		t.Error("a closed transaction has a DB")
	}
}

func testRollback(t *testing.T, d testStore) {
	fail := func(b *Bucket) { must(t, errors.Join(put("b")(b), b.Delete([]byte("a")))) }
	tx, err := d.Begin(true)
	must(t, err)
	fail(tx.Bucket([]byte("b")))
	must(t, tx.Rollback())
	mustBe(t, d.Update(func(tx *Tx) error { fail(tx.Bucket([]byte("b"))); return errAbort }), errAbort)
	mustPanic(t, func() {
		_ = d.Update(func(tx *Tx) error { fail(tx.Bucket([]byte("b"))); panic("no") })
	})
	guardtest.MustKnow(t, d, "b/b", false)
	must(t, d.guard.Work())
	if s := d.GuardStats(); s.Keys != 1 || s.Outbox != 0 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
}

// testCommitPanics makes a commit panic, as the checks of StrictMode do: before it has done anything,
// and after it has done everything.
func testCommitPanics(t *testing.T, d testStore) {
	tx, err := d.Begin(true)
	must(t, err)
	must(t, tx.Bucket([]byte("b")).Delete([]byte("a")))
	must(t, put("b")(tx.Bucket([]byte("b"))))
	c := d.store.prepare(tx.guarded)
	tx.guarded.Done(d.store.outcome(c.Set))
	must(t, tx.Rollback())
	guardtest.MustKnow(t, d, "b/a", true)
	mustPanic(t, func() {
		tx, err := d.Begin(true)
		must(t, err)
		must(t, put("c")(tx.Bucket([]byte("b"))))
		tx.engineTx.WriteFlag = 0
		tx.engineTx.OnCommit(func() { panic("in the commit") }) // before our own handlers, which come later
		_ = tx.Commit()
	})
	guardtest.MustKnow(t, d, "b/c", true)
}

func testBatch(t *testing.T, d testStore) {
	runs := 0
	must(t, d.Batch(func(tx *Tx) error {
		if runs++; runs == 1 {
			must(t, put("lost")(tx.Bucket([]byte("b"))))
			return errAbort
		}
		return put("b")(tx.Bucket([]byte("b")))
	}))
	mustBe(t, d.Batch(func(tx *Tx) error { must(t, put("lost")(tx.Bucket([]byte("b")))); return errAbort }), errAbort)
	done := make(chan error)
	for i := range 100 {
		go func() {
			done <- d.Batch(func(tx *Tx) error { return put(guardtest.Number(i))(tx.Bucket([]byte("b"))) })
		}()
	}
	for range 100 {
		must(t, <-done)
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	guardtest.MustKnow(t, d, "b/lost", false)
}

func testGetOwn(t *testing.T, d testStore) {
	update(t, d, func(b *Bucket) error {
		before := d.GuardStats()
		for _, want := range []bool{true, false, true} {
			if want {
				must(t, put("a")(b))
			} else {
				must(t, b.Delete([]byte("a")))
			}
			if got := b.Get([]byte("a")) != nil; got != want || b.Has([]byte("a")) != want {
				t.Errorf("there: %t", got)
			}
		}
		if b.Get([]byte("z")) != nil || d.GuardStats().Skipped != before.Skipped+1 {
			t.Error("the filter was not asked")
		}
		if s := d.GuardStats(); s.TruePositives != before.TruePositives || s.FalsePositives != before.FalsePositives {
			t.Errorf("the filter was asked: %+v", s)
		}
		must(t, b.Put([]byte("a"), nil)) // a key without a value, which is no bucket
		_, err := b.CreateBucket([]byte("in"))
		must(t, err)
		for name, want := range map[string]bool{"": false, "0": false, "a": true, "in": false, "z": false} {
			if b.Has([]byte(name)) != want {
				t.Errorf("%q is there: %t", name, !want)
			}
		}
		return nil
	})
	must(t, d.guard.Doubt()) // so that lookups reach the store
	must(t, d.View(func(tx *Tx) error {
		if tx.Bucket([]byte("b")).Bucket([]byte("in")).Has(nil) {
			t.Error("an empty bucket has a key")
		}
		return nil
	}))
}

func testCreateBucket(t *testing.T, d testStore) {
	must(t, d.Update(func(tx *Tx) error {
		_, err := tx.CreateBucket([]byte("b"))
		mustBe(t, err, berrors.ErrBucketExists)
		c, err := tx.CreateBucket([]byte("c"))
		must(t, err)
		again, err := tx.CreateBucketIfNotExists([]byte("c"))
		must(t, err)
		if again != c || tx.Bucket([]byte("c")) != c {
			t.Error("one bucket has two objects")
		}
		in, err := c.CreateBucket([]byte("in"))
		return errors.Join(err, put("a")(c), put("k", "a")(in))
	}))
	must(t, d.View(func(tx *Tx) error {
		c := tx.Bucket([]byte("c"))
		if tx.Bucket([]byte("none")) != nil || c.Get([]byte("k")) != nil || c.Bucket([]byte("in")).Get([]byte("k")) == nil {
			t.Error("keys of one bucket are in another")
		}
		return nil
	}))
}

func testDeleteBucket(t *testing.T, d testStore) {
	for i := range 3 {
		update(t, d, func(b *Bucket) (err error) {
			in, err := b.CreateBucketIfNotExists([]byte("in"))
			for j := range 500 {
				err = errors.Join(err, put(guardtest.Number(500*i+j))(b), put(guardtest.Number(j))(in))
			}
			return err
		})
	}
	must(t, d.Update(func(tx *Tx) error {
		mustBe(t, tx.DeleteBucket([]byte("none")), berrors.ErrBucketNotFound)
		mustBe(t, tx.Bucket([]byte("b")).DeleteBucket([]byte("a")), berrors.ErrIncompatibleValue)
		must(t, put("b")(tx.Bucket([]byte("b"))))
		must(t, tx.DeleteBucket([]byte("b")))
		b, err := tx.CreateBucket([]byte("b"))
		must(t, err)
		return put("c", "a")(b)
	}))
}

func testMoveBucket(t *testing.T, d testStore) {
	update(t, d, func(b *Bucket) error {
		a, err := b.tx.CreateBucket([]byte("a"))
		must(t, err)
		in, err := a.CreateBucket([]byte("in"))
		must(t, err)
		deep, err := in.CreateBucket([]byte("deep"))
		return errors.Join(err, put("1", "2")(in), put("1", "3")(deep))
	})
	for _, step := range []struct{ from, to string }{{"a", "b"}, {"b", ""}, {"", "a"}} {
		must(t, d.Update(func(tx *Tx) error {
			bucket := func(name string) *Bucket {
				if name == "" {
					return nil
				}
				return tx.Bucket([]byte(name))
			}
			mustBe(t, tx.MoveBucket([]byte("none"), bucket(step.from), bucket(step.to)), berrors.ErrBucketNotFound)
			return tx.MoveBucket([]byte("in"), bucket(step.from), bucket(step.to))
		}))
		if n := guardtest.MustKeep(t, d); n != 5 || d.GuardStats().Keys != 5 {
			t.Errorf("%d keys; %+v", n, d.GuardStats())
		}
	}
}

// testMoveBucketDirty moves a bucket that the same transaction has changed. bbolt moves the bucket
// without the changes.
func testMoveBucketDirty(t *testing.T, d testStore) {
	update(t, d, func(b *Bucket) error {
		in, err := b.CreateBucket([]byte("in"))
		return errors.Join(err, put("1", "2")(in))
	})
	update(t, d, func(b *Bucket) error {
		in := b.Bucket([]byte("in"))
		must(t, in.Delete([]byte("1")))
		must(t, put("3")(in))
		must(t, b.tx.MoveBucket([]byte("in"), b, nil))
		must(t, put("4")(b.tx.Bucket([]byte("in"))))
		again, err := b.CreateBucket([]byte("in"))
		return errors.Join(err, put("1", "5")(again))
	})
}

func testMoveIntoItself(t *testing.T, d testStore) {
	update(t, d, func(b *Bucket) error {
		in, err := b.CreateBucket([]byte("in"))
		must(t, err)
		mustBe(t, b.Tx().MoveBucket([]byte("b"), nil, b), ErrNotFollowed)
		mustBe(t, b.Tx().MoveBucket([]byte("b"), nil, in), ErrNotFollowed)
		mustBe(t, b.MoveBucket([]byte("in"), b), berrors.ErrSameBuckets)
		return put("a")(in)
	})
}

func testStale(t *testing.T, d testStore) {
	update(t, d, func(b *Bucket) error {
		in, err := b.CreateBucket([]byte("in"))
		must(t, err)
		c := in.Cursor()
		must(t, put("a")(in))
		c.First()
		must(t, b.Tx().DeleteBucket([]byte("b")))
		again, err := b.Tx().CreateBucket([]byte("b"))
		must(t, err)
		for _, old := range []*Bucket{b, in} {
			mustBe(t, old.Put([]byte("a"), nil), ErrNotFollowed)
			mustBe(t, old.Delete([]byte("a")), ErrNotFollowed)
			mustBe(t, old.DeleteBucket([]byte("in")), ErrNotFollowed)
			mustBe(t, old.MoveBucket([]byte("in"), again), ErrNotFollowed)
			mustBe(t, again.MoveBucket([]byte("in"), old), ErrNotFollowed)
			_, err := old.CreateBucket([]byte("x"))
			mustBe(t, err, ErrNotFollowed)
		}
		mustBe(t, c.Delete(), ErrNotFollowed)
		return put("a")(again)
	})
}

func testSequence(t *testing.T, d testStore) {
	update(t, d, func(b *Bucket) error {
		b.FillPercent = 0.9
		mustBe(t, b.SetRootPage(b.Root()), ErrNotFollowed)
		must(t, b.SetSequence(6))
		n, err := b.NextSequence()
		if n != 7 || b.Sequence() != 7 {
			t.Error(n)
		}
		return err
	})
}

func testReserved(t *testing.T, d testStore) {
	for _, name := range [][]byte{d.store.name, owner} {
		update(t, d, func(b *Bucket) error {
			tx := b.Tx()
			if tx.Bucket(name) != nil {
				t.Error("a reserved bucket is shown")
			}
			_, err := tx.CreateBucket(name)
			mustBe(t, err, ErrReserved)
			_, err = tx.CreateBucketIfNotExists(name)
			mustBe(t, err, ErrReserved)
			mustBe(t, tx.DeleteBucket(name), ErrReserved)
			mustBe(t, tx.MoveBucket(name, nil, b), ErrReserved)
			_, err = b.CreateBucket(name) // reserved in the root only
			must(t, err)
			mustBe(t, tx.MoveBucket(name, b, nil), ErrReserved)
			root := tx.Cursor().Bucket()
			mustBe(t, root.Put(name, nil), ErrReserved)
			mustBe(t, root.Delete(name), ErrReserved)
			c := tx.Cursor()
			c.First()
			mustBe(t, c.Delete(), berrors.ErrIncompatibleValue)
			return nil
		})
	}
}

// TestIteration iterates over the buckets in the root in all ways. The reserved buckets are not shown,
// whether they come first, in between, or last.
func TestIteration(t *testing.T) {
	for _, prefix := range []string{"", "m", "zz"} {
		g, want := guardtest.Quiet(guard.Exact), "b"
		g.Prefix = []byte(prefix)
		d := open(t, nil, g)
		update(t, d, put("1"))
		if prefix != "zz" {
			want = "\x00 " + guard.OwnerName + "\x00 b z"
			must(t, d.Update(func(tx *Tx) (err error) {
				for _, name := range strings.Split(want, " ") {
					_, e := tx.CreateBucketIfNotExists([]byte(name))
					err = errors.Join(err, e)
				}
				return err
			}))
		}
		must(t, d.View(func(tx *Tx) error {
			for how, names := range iterate(t, tx) {
				if got := strings.Join(names, " "); got != want {
					t.Errorf("%s: %q, want %q", how, got, want)
				}
			}
			return nil
		}))
	}
}

// iterate returns the names of the buckets in the root, for each way to iterate over them.
func iterate(t *testing.T, tx *Tx) map[string][]string {
	lists := map[string][]string{}
	add := func(how string, name []byte) { lists[how] = append(lists[how], string(name)) }
	must(t, tx.ForEach(func(name []byte, b *Bucket) error {
		if b == nil {
			t.Error("no bucket")
		}
		add("ForEach", name)
		return nil
	}))
	c := tx.Cursor()
	for name, _ := c.First(); name != nil; name, _ = c.Next() {
		add("Next", name)
	}
	for name, _ := c.Last(); name != nil; name, _ = c.Prev() {
		lists["Prev"] = append([]string{string(name)}, lists["Prev"]...)
	}
	for name, _ := c.Seek(nil); name != nil; name, _ = c.Seek(append(bytes.Clone(name), 0)) {
		add("Seek", name)
	}
	must(t, c.Bucket().ForEach(func(name, _ []byte) error { add("Bucket.ForEach", name); return nil }))
	must(t, c.Bucket().ForEachBucket(func(name []byte) error { add("ForEachBucket", name); return nil }))
	for _, s := range tx.Inspect().Children {
		add("Inspect", []byte(s.Name))
	}
	if len(lists) != 7 {
		t.Error(lists)
	}
	return lists
}

// testCopy opens copies of the store that have no filter.
func testCopy(t *testing.T, d testStore) {
	guardtest.Set(t, d, 0, 1000)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	in := func(i int) string { return filepath.Join(dirs[i], "db") }
	must(t, d.View(func(tx *Tx) error { return tx.CopyFile(in(0), 0o600) }))
	f, err := os.Create(in(1))
	must(t, err)
	must(t, d.View(func(tx *Tx) error { _, err := tx.WriteTo(f); return err }))
	must(t, f.Close())
	compacted, err := bbolt.Open(in(2), 0o600, nil)
	must(t, err)
	must(t, errors.Join(Compact(compacted, d.DB, 1<<16), compacted.Close()))
	for _, dir := range dirs {
		c := engine(0).MustOpen(t, dir, guardtest.Quiet(guard.Exact))
		if s := c.GuardStats(); s.Err == "" {
			t.Errorf("%+v", s)
		}
		guardtest.MustHideNone(t, c)
		guardtest.Eventually(t, c, "a filter", guardtest.Serving)
		if n := guardtest.MustHideNone(t, c); n != 1001 {
			t.Errorf("%d keys", n)
		}
	}
}
