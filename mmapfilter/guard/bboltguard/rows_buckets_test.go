package bboltguard

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

func testCreateBucket(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	must(t, d.Update(func(tx *Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		must(t, err)
		_, err = tx.CreateBucket([]byte("b"))
		mustBe(t, err, berrors.ErrBucketExists)
		again, err := tx.CreateBucketIfNotExists([]byte("b"))
		must(t, err)
		if again != b || tx.Bucket([]byte("b")) != b {
			t.Error("one bucket, two objects")
		}
		in, err := b.CreateBucket([]byte("in"))
		must(t, err)
		return errors.Join(put("a")(b), in.Put([]byte("k"), []byte("v")), in.Put([]byte("a"), []byte("v")))
	}))
	if s := d.GuardStats(); s.Keys != 3 {
		t.Errorf("%+v", s)
	}
	must(t, d.View(func(tx *Tx) error {
		if tx.Bucket([]byte("none")) != nil || tx.Bucket([]byte("b")).Get([]byte("k")) != nil || tx.Bucket([]byte("b")).Bucket([]byte("in")).Get([]byte("k")) == nil {
			t.Error("keys of one bucket are in another")
		}
		return nil
	}))
}

func testDeleteBucket(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	putAll(t, d, 0, 700) // so few that no rebuild begins, which may count keys twice
	update(t, d, func(b *Bucket) error {
		in, err := b.CreateBucket([]byte("in"))
		must(t, err)
		return errors.Join(in.Put([]byte("a"), []byte("v")), put("a")(b))
	})
	must(t, d.Update(func(tx *Tx) error {
		mustBe(t, tx.DeleteBucket([]byte("none")), berrors.ErrBucketNotFound)
		mustBe(t, tx.Bucket([]byte("b")).DeleteBucket([]byte("a")), berrors.ErrIncompatibleValue)
		must(t, put("b")(tx.Bucket([]byte("b"))))
		must(t, tx.DeleteBucket([]byte("b")))
		b, err := tx.CreateBucket([]byte("b"))
		must(t, err)
		return put("c", "a")(b)
	}))
	gone(t, d, g)
	mustHaveAll(t, d)
	mustHave(t, d, "a", true)
	mustHave(t, d, "b", false)
	mustHave(t, d, string(number(1)), false)
	if s := d.GuardStats(); s.Keys != 2 {
		t.Errorf("%+v", s)
	}
}

func testMoveBucket(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	must(t, d.Update(func(tx *Tx) error {
		a, err := tx.CreateBucket([]byte("a"))
		must(t, err)
		in, err := a.CreateBucket([]byte("in"))
		must(t, err)
		deep, err := in.CreateBucket([]byte("deep"))
		must(t, err)
		_, err = tx.CreateBucket([]byte("b"))
		return errors.Join(err, put("1", "2")(in), put("1", "3")(deep))
	}))
	for _, step := range []struct{ from, to []string }{{[]string{"a"}, []string{"b"}}, {[]string{"b"}, nil}, {nil, []string{"a"}}} {
		must(t, d.Update(func(tx *Tx) error {
			find := func(names []string) (b *Bucket) {
				for _, name := range names {
					b = tx.Bucket([]byte(name))
				}
				return b
			}
			mustBe(t, tx.MoveBucket([]byte("none"), find(step.from), find(step.to)), berrors.ErrBucketNotFound)
			return tx.MoveBucket([]byte("in"), find(step.from), find(step.to))
		}))
		gone(t, d, g)
		if n := mustHaveAll(t, d); n != 4 || d.GuardStats().Keys != 4 {
			t.Errorf("%d keys; %+v", n, d.GuardStats())
		}
	}
}

// testMoveBucketDirty moves a bucket that the same transaction has changed: bbolt moves it as it was.
func testMoveBucketDirty(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	must(t, d.Update(func(tx *Tx) error {
		a, err := tx.CreateBucket([]byte("a"))
		must(t, err)
		in, err := a.CreateBucket([]byte("in"))
		must(t, err)
		return put("1", "2")(in)
	}))
	must(t, d.Update(func(tx *Tx) error {
		in := tx.Bucket([]byte("a")).Bucket([]byte("in"))
		must(t, in.Delete([]byte("1")))
		must(t, put("3")(in))
		must(t, tx.MoveBucket([]byte("in"), tx.Bucket([]byte("a")), nil))
		must(t, put("4")(tx.Bucket([]byte("in"))))
		again, err := tx.Bucket([]byte("a")).CreateBucket([]byte("in"))
		must(t, err)
		return put("1", "5")(again)
	}))
	gone(t, d, g)
	if n := mustHaveAll(t, d); d.GuardStats().Keys != uint64(n) {
		t.Errorf("%d keys; %+v", n, d.GuardStats())
	}
}

func testMoveIntoItself(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, func(b *Bucket) error {
		in, err := b.CreateBucket([]byte("in"))
		must(t, err)
		mustBe(t, b.Tx().MoveBucket([]byte("b"), nil, b), ErrNotFollowed)
		mustBe(t, b.Tx().MoveBucket([]byte("b"), nil, in), ErrNotFollowed)
		mustBe(t, b.MoveBucket([]byte("in"), b), berrors.ErrSameBuckets)
		return put("a")(in)
	})
	mustHaveAll(t, d)
}

func testStale(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
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
			if !errors.Is(put("a")(old), ErrNotFollowed) {
				t.Error("put into a bucket that is not there")
			}
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
	mustHave(t, d, "a", true)
}

func testSetRootPage(t *testing.T, g *guard.Options) {
	update(t, open(t, nil, g), func(b *Bucket) error { mustBe(t, b.SetRootPage(b.Root()), ErrNotFollowed); return nil })
}

func testSequence(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, func(b *Bucket) error {
		b.FillPercent = 0.9
		must(t, b.SetSequence(6))
		n, err := b.NextSequence()
		if n != 7 || b.Sequence() != 7 {
			t.Error(n)
		}
		return err
	})
	if s := d.GuardStats(); s.Keys != 0 {
		t.Errorf("%+v", s)
	}
}

func testIteration(t *testing.T, g *guard.Options) {
	for _, prefix := range []string{"", "m"} { // first, in the middle
		g.Prefix = []byte(prefix)
		d := open(t, nil, g)
		update(t, d, put("1"))
		must(t, d.Update(func(tx *Tx) error {
			_, err := tx.CreateBucket([]byte("z"))
			_, first := tx.CreateBucket([]byte{0})
			_, next := tx.CreateBucket(append(bytes.Clone(owner), 0))
			return errors.Join(err, first, next)
		}))
		testNames(t, d, "\x00 "+guard.OwnerName+"\x00 b z")
	}
	g.Prefix = []byte("zz") // last
	d := open(t, nil, g)
	update(t, d, put("1"))
	testNames(t, d, "b")
}

func testNames(t *testing.T, d *DB, want string) {
	must(t, d.View(func(tx *Tx) error {
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
		for how, names := range lists {
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s: %q, want %q", how, got, want)
			}
		}
		return nil
	}))
}

func testReserved(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, put("a"))
	for _, name := range [][]byte{d.store.name, owner} {
		testReservedName(t, d, name)
	}
}

func testReservedName(t *testing.T, d *DB, name []byte) {
	update(t, d, func(b *Bucket) error {
		tx := b.Tx()
		if tx.Bucket(name) != nil {
			t.Error("it is there")
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

// testCopy opens copies of the store that have no filter.
func testCopy(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	putAll(t, d, 0, 1000)
	dir := t.TempDir()
	must(t, d.View(func(tx *Tx) error { return tx.CopyFile(filepath.Join(dir, "copied"), 0o600) }))
	f, err := os.Create(filepath.Join(dir, "written"))
	must(t, err)
	must(t, d.View(func(tx *Tx) error { _, err := tx.WriteTo(f); return err }))
	must(t, f.Close())
	compacted, err := bbolt.Open(filepath.Join(dir, "compacted"), 0o600, nil)
	must(t, err)
	must(t, Compact(compacted, d, 1<<16))
	must(t, compacted.Close())
	for _, name := range []string{"copied", "written", "compacted"} {
		d := mustOpen(t, filepath.Join(dir, name), nil, g)
		if s := d.GuardStats(); s.Err == "" {
			t.Errorf("%s: %+v", name, s)
		}
		mustHaveAll(t, d)
		eventually(t, d, name, serving)
		if n := mustHaveAll(t, d); n != 1000 {
			t.Errorf("%s: %d keys", name, n)
		}
		must(t, d.Close())
	}
}

// testBypass writes past the guard, and has it rebuild.
func testBypass(t *testing.T, g *guard.Options) {
	d := open(t, nil, g)
	update(t, d, put("a"))
	must(t, d.DB.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("b")).Put([]byte("c"), nil) }))
	must(t, d.Guard().Rebuild(context.Background()))
	mustHave(t, d, "c", true)
}
