package pebbleguard

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestLongerNames covers G6: with other prefixes, keys of the program that begin with the name of the
// owner stay what they are; that name is reserved.
func TestLongerNames(t *testing.T) {
	longer := key(guard.OwnerName + "x")
	for _, prefix := range []string{"\x00a", "b", guard.OwnerName + "yz"} {
		d := mustOpen(t, t.TempDir(), newest(), &guard.Options{Prefix: []byte(prefix)})
		for _, name := range []string{guard.OwnerName, prefix + "s"} {
			if err := d.Set(key(name), nil, nil); err != ErrReserved {
				t.Errorf("Set %q: %v", name, err)
			}
		}
		must(t, d.Set(longer, key("mine"), nil))
		it, err := d.NewIter(nil)
		must(t, err)
		if !it.First() || !bytes.Equal(it.Key(), longer) || it.Next() {
			t.Errorf("prefix %q: an iterator shows %q", prefix, it.Key())
		}
		must(t, errors.Join(it.Close(), d.Close()))
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
