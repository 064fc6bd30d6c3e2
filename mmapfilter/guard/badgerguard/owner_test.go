package badgerguard

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestOwner covers G6: guards with other prefixes and filters open a store in turns. No key is hidden.
// Keys of the program that begin with the name of the owner stay what they are; that name is reserved.
func TestOwner(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir, n := t.TempDir(), 0
		longer := []string{string(owner) + "\x00", string(owner) + "\xff", string(owner[:len(owner)-1])}
		for _, prefix := range []string{"\x00a", "b", "\x00a", "\x00", "\x00a", string(owner) + "y", "b"} {
			g := quiet(deletes)
			g.Prefix, g.Path = []byte(prefix), filepath.Join(dir, fmt.Sprintf("filter%x", prefix))
			d := mustOpen(t, small(dir), g)
			mustHave(t, d, 0, n, n)
			set(t, d, n, n+100)
			n += 100
			mustHave(t, d, 0, n, n)
			if err := d.Update(func(txn *Txn) error { return txn.Set(owner, nil) }); err != ErrReserved {
				t.Error(err)
			}
			want := n
			if prefix != "\x00" {
				want += len(longer)
				must(t, d.Update(func(txn *Txn) error {
					for _, k := range longer {
						must(t, txn.Set([]byte(k), []byte("mine")))
					}
					return nil
				}))
			}
			must(t, d.View(func(txn *Txn) error {
				for _, reverse := range []bool{false, true} {
					it := txn.NewIterator(badger.IteratorOptions{Reverse: reverse})
					defer it.Close()
					got := 0
					for it.Rewind(); it.Valid(); it.Next() {
						k := it.Item().Key()
						if bytes.Equal(k, owner) || bytes.HasPrefix(k, d.store.prefix) {
							t.Errorf("an iterator shows %q", k)
						}
						if bytes.HasPrefix(k, []byte("k")) || slices.Contains(longer, string(k)) {
							got++
						}
					}
					if got != want {
						t.Errorf("prefix %q, in reverse: %t: %d keys of %d", prefix, reverse, got, want)
					}
				}
				return nil
			}))
			waitFor(t, "a filter", func() bool { return d.GuardStats().State == "serving" })
			must(t, d.Close())
			d = mustOpen(t, small(dir), g)
			if s := d.GuardStats(); s.State != "serving" && prefix != "\x00" { // that one has keys of the program among its entries
				t.Errorf("prefix %q, opened again: %+v", prefix, s)
			}
			mustHave(t, d, 0, n, n)
			must(t, d.Close())
		}
	})
}

// TestOwnerAfterDrop drops all keys, and the owner with them: after the rebuild the guard is the owner.
func TestOwnerAfterDrop(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir := t.TempDir()
		d := mustOpen(t, small(dir), quiet(deletes))
		set(t, d, 0, 10)
		must(t, d.DropAll())
		set(t, d, 0, 20)
		must(t, d.Close())
		d = mustOpen(t, small(dir), quiet(deletes))
		if s := d.GuardStats(); s.State != "serving" {
			t.Errorf("%+v", s)
		}
		mustHave(t, d, 0, 20, 20)
	})
}

// TestOwnerOfProgram covers G6: a store with another prefix has a key of the program where the owner
// is to be. Open refuses it, and the key stays.
func TestOwnerOfProgram(t *testing.T) {
	dir := t.TempDir()
	with := func(do func(txn *badger.Txn) error) {
		db, err := badger.Open(small(dir))
		must(t, err)
		must(t, errors.Join(db.Update(do), db.Close()))
	}
	with(func(txn *badger.Txn) error { return txn.Set(owner, []byte("mine")) })
	if _, err := Open(small(dir), &guard.Options{Prefix: []byte("p")}); !errors.Is(err, guard.ErrReserved) {
		t.Error(err)
	}
	with(func(txn *badger.Txn) error {
		item, err := txn.Get(owner)
		must(t, err)
		value, err := item.ValueCopy(nil)
		if string(value) != "mine" {
			t.Errorf("%q", value)
		}
		return err
	})
}

// TestOwnerIsNotBanned refuses to ban the namespace of the owner.
func TestOwnerIsNotBanned(t *testing.T) {
	g := quiet(guard.Rebuild)
	g.Prefix = []byte("0123456789")
	d := mustOpen(t, small(t.TempDir()).WithNamespaceOffset(1), g)
	if err := d.BanNamespace(0x6d6d617066696c74); err != ErrReserved { // "mmapfilt"
		t.Error(err)
	}
	if err := d.BanNamespace(7); err != nil {
		t.Error(err)
	}
}
