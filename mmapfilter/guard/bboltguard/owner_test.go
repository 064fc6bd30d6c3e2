package bboltguard

import (
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestOwner covers G6: guards with other buckets and filters open a store in turns. No key is hidden,
// and the bucket of the owner is, in all directions of a cursor.
func TestOwner(t *testing.T) {
	each(t, func(t *testing.T, g *guard.Options) {
		dir := t.TempDir()
		names := []string{"\x00", guard.OwnerName + "\x00", guard.OwnerName + "z", "b", "z"}
		for i, prefix := range []string{"", "o", "", guard.OwnerName[:13] + "n", "o", ""} {
			o := *g
			o.Prefix, o.Path = []byte(prefix), filepath.Join(dir, "filter"+prefix[max(len(prefix)-1, 0):])
			d := mustOpen(t, filepath.Join(dir, "db"), fast(), &o)
			mustHaveAll(t, d)
			must(t, d.Update(func(tx *Tx) error {
				for _, name := range names {
					b, err := tx.CreateBucketIfNotExists([]byte(name))
					must(t, err)
					for k := range 20 {
						must(t, b.Put(number(100*i+k), []byte("v")))
					}
				}
				_, err := tx.CreateBucketIfNotExists(owner)
				mustBe(t, err, ErrReserved)
				return nil
			}))
			if n := mustHaveAll(t, d); n < len(names)*20*(i+1) {
				t.Errorf("%d keys", n)
			}
			must(t, d.View(func(tx *Tx) error {
				if tx.Bucket(owner) != nil {
					t.Error("a program sees the owner")
				}
				c := tx.Cursor()
				var up, down []string
				for k, _ := c.First(); k != nil; k, _ = c.Next() {
					up = append(up, string(k))
				}
				for k, _ := c.Last(); k != nil; k, _ = c.Prev() {
					down = append(down, string(k))
				}
				if len(up) != len(down) || len(up) < len(names) {
					t.Errorf("%q, and back %q", up, down)
				}
				for j := range up {
					if k := up[j]; k != down[len(up)-1-j] || k == guard.OwnerName || k == prefix {
						t.Errorf("%q, and back %q", up, down)
					}
				}
				if k, _ := c.Seek(owner); string(k) <= guard.OwnerName {
					t.Errorf("Seek: %q", k)
				}
				return nil
			}))
			eventually(t, d, "a filter", serving)
			must(t, d.Close())
			d = mustOpen(t, filepath.Join(dir, "db"), fast(), &o)
			if s := d.GuardStats(); s.State != "serving" {
				t.Errorf("opened again: %+v", s)
			}
			mustHaveAll(t, d)
			must(t, d.Close())
		}
	})
}

// TestOwnerOfProgram covers G6: the program has a bucket where the owner is to be. Open refuses
// the store, and leaves it as it is.
func TestOwnerOfProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	with := func(do func(tx *bbolt.Tx) error) {
		db, err := bbolt.Open(path, 0o600, nil)
		must(t, err)
		must(t, errors.Join(db.Update(do), db.Close()))
	}
	with(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(owner)
		must(t, err)
		return b.Put([]byte("k"), []byte("mine"))
	})
	if _, err := Open(path, 0o600, nil, nil); !errors.Is(err, guard.ErrReserved) {
		t.Error(err)
	}
	with(func(tx *bbolt.Tx) error {
		if got := string(tx.Bucket(owner).Get([]byte("k"))); got != "mine" || tx.Bucket(owner).Stats().KeyN != 1 {
			t.Errorf("%q", got)
		}
		return nil
	})
}
