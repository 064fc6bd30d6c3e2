package badgerguard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// since returns the keys that a store yields, as text.
func since(t *testing.T, d *testStore, at uint64) (keys []string) {
	t.Helper()
	for key, err := range d.store.Since(at) {
		must(t, err)
		keys = append(keys, string(key))
	}
	return keys
}

// TestSince covers C9: a store yields the keys with all versions after a position, beginning with the
// next version.
func TestSince(t *testing.T) {
	d := open(t, small(t.TempDir()), guardtest.Quiet(guard.Rebuild))
	must(t, d.put([]byte("before")))
	must(t, d.put([]byte("deleted")))
	at, err := d.store.Position()
	must(t, err)
	d.store.noted = at // as if it were opened now
	must(t, d.put([]byte("next")))
	must(t, d.Update(func(txn *Txn) error { return txn.Delete([]byte("deleted")) }))
	must(t, d.Update(func(txn *Txn) error {
		return txn.SetEntry(badger.NewEntry([]byte("short"), nil).WithTTL(-time.Hour))
	}))
	must(t, d.put([]byte("last")))
	if got := strings.Join(since(t, d, at), " "); got != "last next" {
		t.Errorf("after version %d: %s", at, got)
	}
	now, err := d.store.Position()
	must(t, err)
	d.store.noted = now
	if got := since(t, d, now); now != at+5 || len(got) > 0 {
		t.Errorf("after the last version, %d: %s", now, got)
	}
}

// TestVersionsComeAgain covers C9 and G2: a power loss takes transactions whose keys the filter has,
// and other transactions get their versions. After a kill, the filter gets the keys of these
// transactions, too.
func TestVersionsComeAgain(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	d := open(t, small(dir), guardtest.Quiet(guard.Rebuild))
	guardtest.Set(t, d, 0, 100) // few keys, so that the log of the filter does not grow while it is copied
	must(t, d.guard.Work())
	must(t, guardtest.CopyDir(lost, dir))
	for i := range 50 { // as many versions
		guardtest.Set(t, d, 100+i, 101+i)
	}
	must(t, d.guard.Work()) // the filter is at a version that is lost
	for _, name := range []string{FilterName, FilterName + ".stash"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(lost, name), b, 0o600))
	}
	must(t, d.Close())

	killed := t.TempDir()
	d = open(t, small(lost), guardtest.Quiet(guard.Rebuild))
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
		t.Errorf("after the power loss: %+v", s)
	}
	guardtest.Set(t, d, 5000, 5003)
	must(t, guardtest.CopyDir(killed, lost))
	must(t, d.Close())
	d = open(t, small(killed), guardtest.Quiet(guard.Rebuild))
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" || s.Replayed == 0 {
		t.Errorf("after the kill: %+v", s)
	}
	guardtest.MustHideNone(t, d)
}

// TestSinceReadsTables covers C9: after a kill, a program without a guard has opened the store, so the
// keys that the filter lacks are in a table. If the table is damaged, Badger's iterator may end without
// an error. So Open fails instead.
func TestSinceReadsTables(t *testing.T) {
	for _, encryption := range []string{"", "0123456789abcdef"} {
		for _, damaged := range []bool{false, true} {
			t.Run(fmt.Sprintf("encrypted %t, damaged %t", encryption != "", damaged), func(t *testing.T) {
				dir, killed := t.TempDir(), t.TempDir()
				o := small(dir).WithEncryptionKey([]byte(encryption)).WithIndexCacheSize(1 << 20)
				d := open(t, o, guardtest.Quiet(guard.Rebuild))
				guardtest.Set(t, d, 0, 100)
				must(t, d.guard.Work())
				guardtest.Set(t, d, 100, 300)
				must(t, guardtest.CopyDir(killed, dir))
				must(t, d.Close())
				o.Dir, o.ValueDir = killed, killed
				foreign, err := badger.Open(o)
				must(t, err)
				must(t, foreign.Close())
				if damaged {
					damageTables(t, killed)
				}
				d, err = openStore(o, guardtest.Quiet(guard.Rebuild))
				if damaged {
					if err == nil || !strings.Contains(err.Error(), "checksum mismatch") {
						t.Errorf("a damaged store: %v", err)
					}
					return
				}
				must(t, err)
				if s := d.GuardStats(); s.State != "serving" || s.Replayed < 200 {
					t.Errorf("%+v", s)
				}
				guardtest.MustHave(t, d, 0, 300, 400)
				must(t, d.Close())
			})
		}
	}
}

// damageTables changes a byte in the first block of each table.
func damageTables(t *testing.T, dir string) {
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	must(t, err)
	for _, path := range tables {
		b, err := os.ReadFile(path)
		must(t, err)
		b[50] ^= 0xff
		must(t, os.WriteFile(path, b, 0o600))
	}
	if len(tables) == 0 {
		t.Error("the store has no table")
	}
}

// TestPositionNotes covers G7: Position sets the note only once the guard has written something.
// Otherwise a kill while a store is opened would hide what was written without the guard.
func TestPositionNotes(t *testing.T) {
	db, err := badger.Open(small(t.TempDir()))
	must(t, err)
	s, err := newStore(db, []byte("prefix"))
	must(t, err)
	for _, want := range []uint64{0, 0, 2, 3} {
		if want == 2 {
			must(t, s.Write(guard.Changes{}))
		}
		if at, err := s.Position(); at != want || err != nil {
			t.Errorf("%d, not %d: %v", at, want, err)
		}
	}
	must(t, db.Close())
}
