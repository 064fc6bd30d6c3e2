package bboltguard

import (
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

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
