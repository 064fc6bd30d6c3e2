package bboltguard

import (
	"context"
	"errors"
	"testing"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// rows are the rows of the table in the package's essay.
var rows = []struct {
	name string
	test func(t *testing.T, g *guard.Options)
}{
	{"Put", testPut},
	{"Delete", testDelete},
	{"Update", testUpdate},
	{"Rollback", testRollback},
	{"CommitFails", testCommitFails},
	{"CommitPanics", testCommitPanics},
	{"Batch", testBatch},
	{"GetOwn", testGetOwn},
	{"CreateBucket", testCreateBucket},
	{"DeleteBucket", testDeleteBucket},
	{"MoveBucket", testMoveBucket},
	{"MoveBucketDirty", testMoveBucketDirty},
	{"MoveBucketIntoItself", testMoveIntoItself},
	{"StaleBucket", testStale},
	{"SetRootPage", testSetRootPage},
	{"Sequence", testSequence},
	{"Iteration", testIteration},
	{"Reserved", testReserved},
	{"Copy", testCopy},
	{"Bypass", testBypass},
}

func TestRows(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			each(t, func(t *testing.T, g *guard.Options) {
				g.FalsePositiveRate = 1e-7 // a test that fails for chance is no good
				row.test(t, g)
			})
		})
	}
}

// get looks up a key in "b", and returns whether it was there and whether the store was asked.
func get(t *testing.T, d *DB, key string) (there, asked bool) {
	t.Helper()
	before := d.GuardStats().Skipped
	must(t, d.View(func(tx *Tx) error { there = tx.Bucket([]byte("b")).Get([]byte(key)) != nil; return nil }))
	return there, d.GuardStats().Skipped == before
}

// mustHave checks that a key is there, or that it is not and that the filter knows.
func mustHave(t *testing.T, d *DB, key string, want bool) {
	t.Helper()
	if there, asked := get(t, d, key); there != want || asked != want {
		t.Fatalf("%s: there %t, asked %t, want %t; %+v", key, there, asked, want, d.GuardStats())
	}
}

func put(keys ...string) func(b *Bucket) error {
	return func(b *Bucket) (err error) {
		for _, key := range keys {
			err = errors.Join(err, b.Put([]byte(key), []byte("v")))
		}
		return err
	}
}

func testPut(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, put("a"))
	mustHave(t, d, "a", true)
	mustHave(t, d, "z", false)
	update(t, d, put("a", "a")) // counts once
	if s := d.GuardStats(); s.Keys != 1 {
		t.Errorf("%+v", s)
	}
}

// gone brings the filter to know of deletes.
func gone(t *testing.T, d *DB, g *guard.Options) {
	t.Helper()
	if g.Deletes == guard.Rebuild {
		must(t, d.Guard().Rebuild(context.Background()))
	}
	must(t, d.Guard().Work())
}

func testDelete(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, put("a", "b", "c", "d"))
	update(t, d, func(b *Bucket) error {
		must(t, b.Delete([]byte("a")))
		must(t, b.Delete([]byte("nobody")))
		c := b.Cursor()
		for key, _ := c.First(); key != nil; key, _ = c.Next() {
			if string(key) == "c" {
				must(t, c.Delete())
				must(t, c.Delete()) // nothing
			}
		}
		c.Last()
		c.Next() // stays
		must(t, c.Delete())
		return nil
	})
	if s := d.GuardStats(); g.Deletes == guard.Rebuild && s.Gone != 3 {
		t.Errorf("%+v", s)
	}
	gone(t, d, g)
	for _, key := range []string{"a", "c", "d", "nobody"} {
		mustHave(t, d, key, false)
	}
	mustHave(t, d, "b", true)
	update(t, d, put("a"))
	mustHave(t, d, "a", true)
}

func testUpdate(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	handled := false
	must(t, d.Update(func(tx *Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		must(t, err)
		if n := d.GuardStats().Keys; n != 0 {
			t.Errorf("%d keys before the commit", n)
		}
		tx.OnCommit(func() { // may do another one
			handled = true
			update(t, d, put("a", "b"))
		})
		for _, end := range []func() error{tx.Commit, tx.Rollback} {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("a managed transaction was ended by its function")
					}
				}()
				_ = end()
			}()
		}
		return b.Put([]byte("a"), nil)
	}))
	if !handled {
		t.Error("OnCommit was not called")
	}
	mustHave(t, d, "a", true)
	mustHave(t, d, "b", true)
	tx, err := d.Begin(true)
	must(t, err)
	must(t, put("c")(tx.Bucket([]byte("b"))))
	must(t, tx.Commit())
	mustBe(t, tx.Commit(), berrors.ErrTxClosed)
	mustBe(t, tx.Rollback(), berrors.ErrTxClosed)
	mustHave(t, d, "c", true)
	tx, err = d.Begin(false)
	must(t, err)
	mustBe(t, tx.Commit(), berrors.ErrTxNotWritable)
	mustBe(t, put("d")(tx.Bucket([]byte("b"))).(interface{ Unwrap() []error }).Unwrap()[0], berrors.ErrTxNotWritable)
	mustBe(t, tx.Bucket([]byte("b")).Delete([]byte("a")), berrors.ErrTxNotWritable)
	mustBe(t, tx.DeleteBucket([]byte("b")), berrors.ErrTxNotWritable)
	must(t, tx.Rollback())
	if tx.DB() != nil {
		t.Error("a closed transaction has a DB")
	}
}

func testRollback(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, put("a"))
	fail := func(b *Bucket) error { return errors.Join(put("b")(b), b.Delete([]byte("a"))) }
	tx, err := d.Begin(true)
	must(t, err)
	must(t, fail(tx.Bucket([]byte("b"))))
	must(t, tx.Rollback())
	mustBe(t, d.Update(func(tx *Tx) error { must(t, fail(tx.Bucket([]byte("b")))); return errAbort }), errAbort)
	func() {
		defer func() { _ = recover() }()
		_ = d.Update(func(tx *Tx) error { must(t, fail(tx.Bucket([]byte("b")))); panic("no") })
	}()
	gone(t, d, g)
	mustHave(t, d, "a", true)
	mustHave(t, d, "b", false)
	if s := d.GuardStats(); s.Keys != 1 || s.Outbox != 0 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
}

// testCommitFails has commits fail, since the store is full.
func testCommitFails(t *testing.T, g *guard.Options) {
	o := fast()
	o.MaxSize = 1 << 20
	d := open(t, o, g)
	update(t, d, put("a"))
	for i := range 20 {
		err := d.Update(func(tx *Tx) error {
			b := tx.Bucket([]byte("b"))
			return errors.Join(b.Delete([]byte("a")), b.Put(number(i), make([]byte, 2<<20)))
		})
		if err == nil {
			t.Fatal("the store has room")
		}
		must(t, d.Guard().Work())
		mustHave(t, d, "a", true)
		mustHaveAll(t, d)
		if there, _ := get(t, d, string(number(i))); there {
			t.Error("there nonetheless")
		}
	}
	if s := d.GuardStats(); s.Pending != 0 || g.Deletes == guard.Exact && s.Keys != 1 {
		t.Errorf("%+v", s)
	}
	must(t, d.Guard().Rebuild(context.Background()))
	mustHave(t, d, "a", true)
	mustHave(t, d, string(number(0)), false)
}

// testCommitPanics has a commit panic, as the checks of StrictMode do.
func testCommitPanics(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, put("a"))
	tx, err := d.Begin(true)
	must(t, err)
	must(t, tx.Bucket([]byte("b")).Delete([]byte("a")))
	must(t, put("b")(tx.Bucket([]byte("b"))))
	c := d.store.prepare(tx.guarded)
	tx.guarded.Done(d.store.outcome(c.Set))
	must(t, tx.Rollback())
	gone(t, d, g)
	mustHave(t, d, "a", true)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		tx, err := d.Begin(true)
		must(t, err)
		must(t, put("c")(tx.Bucket([]byte("b"))))
		tx.engineTx.WriteFlag = 0
		tx.engineTx.OnCommit(func() { panic("in the commit") }) // past ours, which come later
		_ = tx.Commit()
	}()
	gone(t, d, g)
	mustHave(t, d, "c", true) // it came after the commit
	mustHave(t, d, "b", false)
}

func testBatch(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, put("a"))
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
	for i := range 50 {
		go func() {
			done <- d.Batch(func(tx *Tx) error { return put(string(number(i)))(tx.Bucket([]byte("b"))) })
		}()
	}
	for range 50 {
		must(t, <-done)
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	mustHave(t, d, "b", true)
	mustHave(t, d, "lost", false)
	// guard.Rebuild leaves out a key that the filter takes for another one.
	if s := d.GuardStats(); s.Keys > 52 || s.Keys < 48 {
		t.Errorf("%+v", s)
	}
	mustHaveAll(t, d)
}

func testGetOwn(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, func(b *Bucket) error {
		for _, want := range []bool{true, false, true} {
			if want {
				must(t, put("a")(b))
			} else {
				must(t, b.Delete([]byte("a")))
			}
			if got := b.Get([]byte("a")) != nil; got != want {
				t.Errorf("there: %t", got)
			}
		}
		before := d.GuardStats().Skipped
		if b.Get([]byte("z")) != nil || d.GuardStats().Skipped != before+1 {
			t.Error("the filter was not asked")
		}
		return nil
	})
	if s := d.GuardStats(); s.TruePositives+s.FalsePositives > 0 {
		t.Errorf("the filter was asked: %+v", s)
	}
	mustHave(t, d, "a", true)
}
