package badgerguard

import (
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// TestCleanerNotes covers G7: with deletes: Exact, what the cleaner writes is not taken for something
// that a program without the guard has written.
func TestCleanerNotes(t *testing.T) {
	e, o := engine(true, false), guardtest.Quiet(guard.Exact)
	dir, killed := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	d := e.MustOpen(t, dir, o).(*testStore)
	guardtest.Set(t, d, 0, 100)
	must(t, d.guard.Sync())
	inserts := guard.Range{From: []byte{'i'}, To: []byte{'j'}}
	if _, keys, err := d.store.keysIn([]guard.Range{inserts}); len(keys) == 0 || err != nil {
		t.Errorf("%q, %v", keys, err)
	}
	must(t, d.store.remove([]guard.Range{inserts}))
	must(t, d.Copy(killed))
	must(t, d.Close())
	must(t, e.MustServe(t, killed, o).Close())
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
