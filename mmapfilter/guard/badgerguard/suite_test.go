package badgerguard

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// engine returns an Engine whose stores may detect conflicts and may drop keys. Drops bring back
// deleted keys, even keys with other prefixes. So with drops, the tests only check that no key of the
// store is hidden.
func engine(conflicts, drops bool) guardtest.Engine {
	return guardtest.Engine{
		Filter:  FilterName,
		Revives: drops,
		Open: func(dir string, g *guard.Options, readOnly bool) (guardtest.DB, error) {
			d, err := openStore(small(dir).WithDetectConflicts(conflicts).WithReadOnly(readOnly), g)
			if err == nil && drops {
				d.drops = new(drop)
			}
			return d, err
		},
		Unguarded: func(dir string, keys []string) error {
			db, err := badger.Open(small(dir))
			if err != nil { // see openStore
				db, err = badger.Open(small(dir))
			}
			if err != nil {
				return err
			}
			for _, key := range keys {
				err = errors.Join(err, db.Update(func(txn *badger.Txn) error { return txn.Set([]byte(key), []byte("v")) }))
			}
			return errors.Join(err, db.Close())
		},
		Swap: func(dir, value string) (was string, err error) {
			db, err := badger.Open(small(dir))
			if err != nil {
				return "", err
			}
			err = db.Update(func(txn *badger.Txn) error {
				if item, err := txn.Get(owner); err == nil {
					b, _ := item.ValueCopy(nil)
					was = string(b)
				}
				return txn.Set(owner, []byte(value))
			})
			return was, errors.Join(err, db.Close())
		},
	}
}

func TestMain(m *testing.M) { guardtest.Main(m, engine(true, true)) }

func TestModel(t *testing.T) {
	for _, conflicts := range []bool{true, false} {
		for _, drops := range []bool{false, true} {
			t.Run(fmt.Sprintf("conflicts=%t,drops=%t", conflicts, drops), func(t *testing.T) { guardtest.Model(t, engine(conflicts, drops)) })
		}
	}
}

func TestKill(t *testing.T)        { guardtest.Kill(t, engine(true, true)) }
func TestFiles(t *testing.T)       { guardtest.Files(t, engine(true, false)) }
func TestGrowth(t *testing.T)      { guardtest.Growth(t, engine(true, false)) }
func TestOnce(t *testing.T)        { guardtest.Once(t, engine(true, false)) }
func TestBatch(t *testing.T)       { guardtest.Batch(t, engine(true, false)) }
func TestOwner(t *testing.T)       { guardtest.Owner(t, engine(true, false)) }
func TestPast(t *testing.T)        { guardtest.Past(t, engine(true, false)) }
func TestAgain(t *testing.T)       { guardtest.Again(t, engine(true, false)) }
func TestCovers(t *testing.T)      { guardtest.Covers(t, engine(true, false)) }
func TestOldReader(t *testing.T)   { guardtest.Old(t, engine(true, false)) }
func TestPermissions(t *testing.T) { guardtest.Mode(t, engine(true, false)) }

// valueThreshold is the length of the shortest value that goes to the value log.
const valueThreshold = 1 << 10

// small returns options for tests, with which memtables are soon full.
func small(dir string) badger.Options {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false)
	o.MemTableSize, o.ValueLogFileSize, o.ValueThreshold = 2<<20, 4<<20, valueThreshold
	o.BlockCacheSize, o.NumCompactors = 4<<20, 2
	return o
}

// A testStore is a DB for the tests of package guardtest.
type testStore struct {
	*DB
	exact bool  // Options.Deletes is guard.Exact
	drops *drop // nil if nothing drops keys
	mu    sync.Mutex
	// merges has the merge operators of the workers, by the names of the workers. Guarded by mu.
	merges map[string]*MergeOperator
}

func openStore(o badger.Options, g *guard.Options) (*testStore, error) {
	d, err := Open(o, g)
	if err != nil { // after a kill while Badger was creating a log, only the second try succeeds
		d, err = Open(o, g)
	}
	return &testStore{DB: d, exact: g != nil && g.Deletes == guard.Exact, merges: map[string]*MergeOperator{}}, err
}

// A drop counts drops.
type drop struct{ begun, ended atomic.Uint64 }

func (d *testStore) Close() error {
	for _, m := range d.merges {
		m.Stop()
	}
	return d.DB.Close()
}

// Copy begins again if tables come or go meanwhile.
func (d *testStore) Copy(to string) error {
	manifest := filepath.Join(d.options.Dir, badger.ManifestFilename)
	for {
		before, err := os.ReadFile(manifest)
		err = errors.Join(err, os.RemoveAll(to), guardtest.CopyDir(to, d.options.Dir))
		after, e := os.ReadFile(manifest)
		if err = errors.Join(err, e); err != nil || bytes.Equal(before, after) {
			return err
		}
	}
}

func (d *testStore) Get(key string) (value []byte, err error) {
	err = d.View(func(txn *Txn) error { value, err = testTxn{txn, d}.Get(key); return err })
	return value, err
}

func (d *testStore) Has(key string) (bool, error) { return d.DB.Has([]byte(key)) }

func (d *testStore) AbsentBatch(keys []string) []bool {
	return guardtest.AbsentBatch(keys, d.DB.AbsentBatch)
}

func (d *testStore) Reader() (guardtest.Reader, error) {
	return testTxn{d.NewTransaction(false), d}, nil
}

// A testTxn is a transaction that reads or writes.
type testTxn struct {
	*Txn
	db *testStore
}

func (t testTxn) Close() error                 { t.Discard(); return nil }
func (t testTxn) Set(key, value string) error  { return t.Txn.Set([]byte(key), []byte(value)) }
func (t testTxn) Delete(key string) error      { return t.Txn.Delete([]byte(key)) }
func (t testTxn) Has(key string) (bool, error) { return t.Txn.Has([]byte(key)) }

func (t testTxn) Get(key string) ([]byte, error) {
	item, err := t.Txn.Get([]byte(key))
	switch err {
	case nil:
		return item.ValueCopy(nil)
	case badger.ErrKeyNotFound:
		return nil, nil
	}
	return nil, err
}

// Stored is called for a key that Get has not found. A drop that is under way may bring the key back,
// and then Get must find it.
func (t testTxn) Stored(key string) (bool, error) {
	for {
		var ended uint64
		if t.db.drops != nil {
			ended = t.db.drops.ended.Load()
			if value, err := t.Get(key); value != nil || err != nil {
				return false, err
			}
		}
		_, err := t.Txn.Txn.Get([]byte(key))
		if err == nil && t.db.drops != nil && t.db.drops.begun.Load() != ended {
			continue
		}
		if err == badger.ErrKeyNotFound {
			return false, nil
		}
		return err == nil, err
	}
}

func (t testTxn) Keys() (keys []string, err error) {
	it := t.Txn.Txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if key := it.Item().Key(); !t.db.store.reserved(key) {
			keys = append(keys, string(key))
		}
	}
	return keys, nil
}

// notDone returns ErrNotDone for errors which mean that nothing has happened.
func notDone(err error) error {
	if errors.Is(err, badger.ErrBlockedWrites) || errors.Is(err, badger.ErrConflict) {
		return guardtest.ErrNotDone
	}
	return err
}

func (d *testStore) Do(r *rand.Rand, work func(guardtest.Tx) error) error {
	if r.IntN(2) == 0 {
		return notDone(d.Update(func(txn *Txn) error { return work(testTxn{txn, d}) }))
	}
	txn := d.NewTransaction(true)
	defer txn.Discard()
	if err := work(testTxn{txn, d}); err != nil {
		return notDone(err)
	}
	if r.IntN(2) == 0 {
		return notDone(txn.Commit())
	}
	ended := make(chan error)
	txn.CommitWith(func(err error) { ended <- err })
	return notDone(<-ended)
}

// Step does something that only Badger can do.
func (d *testStore) Step(w *guardtest.Worker) error {
	err := d.step(w)
	if err = notDone(err); err == guardtest.ErrNotDone {
		return nil
	}
	return err
}

func (d *testStore) step(w *guardtest.Worker) error {
	switch n := w.Rand.IntN(100); {
	case n < 30:
		return d.batch(w)
	case n < 50:
		return d.large(w)
	case n < 60:
		return d.contend(w)
	case n < 70:
		return d.merge(w).Add([]byte("x"))
	case n < 80:
		s, err := d.GetSequence(fmt.Appendf(nil, "sequence/%d", w.Rand.IntN(20)), 2)
		if err == nil {
			_, err = s.Next()
		}
		return err
	case n < 82 && d.drops != nil:
		return d.drop(w)
	case n < 83 && d.drops == nil: // with drops, a compaction would bring back a value that the GC moves
		if err := d.RunValueLogGC(0.1); err != badger.ErrNoRewrite && err != badger.ErrRejected {
			return err
		}
		return nil
	}
	return d.expire(w)
}

// A writes is a WriteBatch for a worker.
type writes struct{ *WriteBatch }

func (b writes) Set(key, value string) error { return b.WriteBatch.Set([]byte(key), []byte(value)) }
func (b writes) Delete(key string) error     { return b.WriteBatch.Delete([]byte(key)) }

func (d *testStore) batch(w *guardtest.Worker) error {
	b := d.NewWriteBatch()
	defer b.Cancel()
	after, err := w.Change(writes{b})
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		w.Has = after
	}
	return err
}

// large sets a key to a value that goes to the value log.
func (d *testStore) large(w *guardtest.Worker) error {
	key, value := w.Key(), w.Value()+strings.Repeat("v", valueThreshold)
	err := d.Update(func(txn *Txn) error { return testTxn{txn, d}.Set(key, value) })
	if err == nil {
		w.Has[key] = value
	}
	return err
}

// contend makes two transactions conflict. One of them must fail if Badger detects conflicts.
func (d *testStore) contend(w *guardtest.Worker) error {
	key := w.Key()
	first, second := w.Value(), w.Value()
	err := d.Update(func(txn *Txn) error {
		if _, err := (testTxn{txn, d}).Get(key); err != nil {
			return err
		}
		err := d.Update(func(other *Txn) error { return testTxn{other, d}.Set(key, first) })
		if err != nil {
			return err
		}
		w.Has[key] = first
		return testTxn{txn, d}.Set(key, second)
	})
	if err == nil {
		if w.Has[key] = second; d.Opts().DetectConflicts {
			return fmt.Errorf("no conflict for %q", key)
		}
	}
	return err
}

func (d *testStore) merge(w *guardtest.Worker) *MergeOperator {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.merges[w.Name] == nil {
		add := func(a, b []byte) []byte { return append(a[:len(a):len(a)], b...) }
		d.merges[w.Name] = d.GetMergeOperator([]byte("merge/"+w.Name), add, 20*time.Millisecond)
	}
	return d.merges[w.Name]
}

// expire sets keys that expire.
func (d *testStore) expire(w *guardtest.Worker) error {
	return d.Update(func(txn *Txn) error {
		key := fmt.Appendf(nil, "expires/%s-%d", w.Name, w.Rand.IntN(30))
		if w.Rand.IntN(3) == 0 {
			return txn.Set(key, []byte("stays"))
		}
		return txn.SetEntry(badger.NewEntry(key, []byte("goes")).WithTTL(time.Duration(1+w.Rand.IntN(2)) * time.Second))
	})
}

func (d *testStore) drop(w *guardtest.Worker) error {
	prefix := w.Key()
	prefix = prefix[:len(prefix)-1]
	d.drops.begun.Add(1)
	defer d.drops.ended.Add(1)
	err := d.DropPrefix([]byte(prefix))
	if err == nil {
		maps.DeleteFunc(w.Has, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	}
	return err
}
