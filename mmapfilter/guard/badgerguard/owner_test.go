package badgerguard

import (
	"errors"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

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
