package pebbleguard

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestOwner covers G6: guards with other prefixes and filters open a store in turns. No key is hidden.
// Keys of the program that begin with the name of the owner stay what they are; that name is reserved.
func TestOwner(t *testing.T) {
	longer := key(guard.OwnerName + "x")
	for _, deletes := range bothModes {
		dir := t.TempDir()
		options := func(prefix string) *guard.Options {
			return &guard.Options{Deletes: deletes, Prefix: []byte(prefix), Path: filepath.Join(dir, fmt.Sprintf("filter%x", prefix))}
		}
		n := 0
		for _, prefix := range []string{"\x00a", "b", "\x00a", "b", "\x00", "\x00a", guard.OwnerName + "yz", "b"} {
			d := mustOpen(t, dir, newest(), options(prefix))
			mustHave(t, d, 0, n, n)
			for i := n; i < n+100; i++ {
				must(t, d.Set(number(i), nil, pebble.NoSync))
			}
			n += 100
			mustHave(t, d, 0, n, n)
			for _, name := range []string{guard.OwnerName, prefix + "s"} {
				if err := d.Set(key(name), nil, nil); err != ErrReserved {
					t.Errorf("Set %q: %v", name, err)
				}
			}
			want := n
			if prefix != "\x00" {
				want++
				must(t, d.Set(longer, key("mine"), nil))
			}
			it, err := d.NewIter(&pebble.IterOptions{LowerBound: key(guard.OwnerName)})
			must(t, err)
			got := 0
			for ok := it.First(); ok; ok = it.Next() {
				if got++; bytes.Equal(it.Key(), owner) {
					t.Error("an iterator shows the owner")
				}
			}
			if must(t, it.Close()); got < want {
				t.Errorf("prefix %q: %d keys of %d", prefix, got, want)
			}
			wait(t, "a filter", func() bool { return d.GuardStats().State == "serving" })
			must(t, d.Close())
			d = mustOpen(t, dir, newest(), options(prefix))
			if s := d.GuardStats(); s.State != "serving" && prefix != "\x00" { // that one has the key longer among its entries
				t.Errorf("prefix %q, opened again: %+v", prefix, s)
			}
			mustHave(t, d, 0, n, n)
			must(t, d.Close())
		}
	}
}

// TestOwnerOfProgram covers G6: a store with another prefix has a key of the program where the owner
// is to be. Open refuses it, and the key stays.
func TestOwnerOfProgram(t *testing.T) {
	dir := t.TempDir()
	db, err := pebble.Open(dir, newest())
	must(t, err)
	must(t, errors.Join(db.Set(owner, key("mine"), nil), db.Close()))
	for _, deletes := range bothModes {
		if _, err := Open(dir, newest(), &guard.Options{Deletes: deletes, Prefix: []byte("p")}); !errors.Is(err, guard.ErrReserved) {
			t.Errorf("%s: %v", deletes, err)
		}
	}
	db, err = pebble.Open(dir, newest())
	must(t, err)
	value, c, err := db.Get(owner)
	if err != nil || string(value) != "mine" {
		t.Errorf("%q, %v", value, err)
	}
	must(t, errors.Join(c.Close(), db.Close()))
}
