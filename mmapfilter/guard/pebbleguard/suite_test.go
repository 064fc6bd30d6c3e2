package pebbleguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// suite returns an Engine whose stores have memtables of memTable bytes, or of Pebble's default if that
// is 0. Stores compact their tables only if memTable is not 0. fileOnly says which kind of snapshots
// readers use.
func suite(memTable uint64, fileOnly bool) guardtest.Engine {
	return guardtest.Engine{
		Filter: FilterName,
		Open: func(dir string, g *guard.Options, readOnly bool) (guardtest.DB, error) {
			o := newest()
			o.ReadOnly, o.MemTableSize, o.DisableAutomaticCompactions = readOnly, memTable, memTable == 0
			d, err := Open(dir, o, g)
			return &testStore{DB: d, dir: dir, fileOnly: fileOnly}, err
		},
		Unguarded: func(dir string, keys []string) error {
			db, err := pebble.Open(dir, newest())
			if err != nil {
				return err
			}
			for _, k := range keys {
				err = errors.Join(err, db.Set(key(k), key("v"), pebble.NoSync))
			}
			return errors.Join(err, db.Close())
		},
		Swap: func(dir, value string) (string, error) {
			db, err := pebble.Open(dir, newest())
			if err != nil {
				return "", err
			}
			was, err := text(db.Get(owner))
			return string(was), errors.Join(err, db.Set(owner, key(value), nil), db.Close())
		},
	}
}

const few = 64 << 10

func newest() *pebble.Options {
	return &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}}
}

func TestMain(m *testing.M) { guardtest.Main(m, suite(few<<2, false)) }

func TestModel(t *testing.T)       { guardtest.Model(t, suite(few, false)) }
func TestKill(t *testing.T)        { guardtest.Kill(t, suite(few<<2, false)) }
func TestFiles(t *testing.T)       { guardtest.Files(t, suite(0, false)) }
func TestGrowth(t *testing.T)      { guardtest.Growth(t, suite(few<<4, false)) }
func TestOnce(t *testing.T)        { guardtest.Once(t, suite(0, false)) }
func TestBatch(t *testing.T)       { guardtest.Batch(t, suite(0, false)) }
func TestOwner(t *testing.T)       { guardtest.Owner(t, suite(0, false)) }
func TestPast(t *testing.T)        { guardtest.Past(t, suite(0, false)) }
func TestAgain(t *testing.T)       { guardtest.Again(t, suite(0, false)) }
func TestCovers(t *testing.T)      { guardtest.Covers(t, suite(0, false)) }
func TestPermissions(t *testing.T) { guardtest.Mode(t, suite(0, false)) }

func TestOldReader(t *testing.T) {
	for _, fileOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("fileOnly=%t", fileOnly), func(t *testing.T) { guardtest.Old(t, suite(0, fileOnly)) })
	}
}

// A testStore is a DB in a directory.
type testStore struct {
	*DB
	dir      string
	fileOnly bool
	closed   bool // Pebble panics if it is closed twice
}

func (d *testStore) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	return d.DB.Close()
}

var must = guardtest.Must

func open(t *testing.T, dir string, o *pebble.Options, g *guard.Options) *testStore {
	t.Helper()
	db, err := Open(dir, o, g)
	return guardtest.Opened(t, &testStore{DB: db, dir: dir}, err)
}

func key(s string) []byte { return []byte(s) }

func number(i int) []byte { return key(guardtest.Number(i)) }

// text returns a value, or nil if there is none.
func text(v []byte, c io.Closer, err error) ([]byte, error) {
	if err == pebble.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v = append([]byte{}, v...) // v is not valid once c is closed
	return v, c.Close()
}

func (d *testStore) Get(key string) ([]byte, error) { return text(d.DB.Get([]byte(key))) }
func (d *testStore) Has(key string) (bool, error)   { return d.DB.Has([]byte(key)) }

func (d *testStore) Copy(to string) error {
	if !d.options.DisableWAL {
		if err := d.LogData(nil, pebble.Sync); err != nil { // otherwise Pebble may not have written commits that need not be durable
			return err
		}
	}
	return guardtest.CopyDir(to, d.dir)
}

func (d *testStore) AbsentBatch(keys []string) []bool {
	return guardtest.AbsentBatch(keys, d.DB.AbsentBatch)
}

func (d *testStore) Reader() (guardtest.Reader, error) {
	if d.fileOnly {
		s := d.NewEventuallyFileOnlySnapshot([]pebble.KeyRange{{Start: []byte{0}, End: []byte{0xff}}})
		return reader{s, s.EventuallyFileOnlySnapshot}, nil
	}
	s := d.NewSnapshot()
	return reader{s, s.Snapshot}, nil
}

// A reader is a snapshot, read with the guard and without it.
type reader struct {
	guarded snapshot
	stored  pebble.Reader
}

type snapshot interface {
	Get(key []byte) ([]byte, io.Closer, error)
	Has(key []byte) (bool, error)
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
	Close() error
}

func (r reader) Close() error                   { return r.guarded.Close() }
func (r reader) Get(key string) ([]byte, error) { return text(r.guarded.Get([]byte(key))) }
func (r reader) Has(key string) (bool, error)   { return r.guarded.Has([]byte(key)) }

func (r reader) Stored(key string) (bool, error) {
	v, err := text(r.stored.Get([]byte(key)))
	return v != nil, err
}

func (r reader) Keys() (keys []string, err error) {
	it, err := r.guarded.NewIter(nil)
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		keys = append(keys, string(it.Key()))
	}
	return keys, it.Close()
}

// A testBatch is a batch used as a transaction.
type testBatch struct{ *Batch }

func (b testBatch) Set(key, value string) error    { return b.Batch.Set([]byte(key), []byte(value), nil) }
func (b testBatch) Delete(key string) error        { return b.Batch.Delete([]byte(key), nil) }
func (b testBatch) Get(key string) ([]byte, error) { return text(b.Batch.Get([]byte(key))) }
func (b testBatch) Has(key string) (bool, error)   { return b.Batch.Has([]byte(key)) }

func (d *testStore) Do(r *rand.Rand, work func(guardtest.Tx) error) (err error) {
	b := d.NewIndexedBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := work(testBatch{b}); err != nil {
		return err
	}
	return d.commit(r, b)
}

// commit commits a batch in one of the ways that Pebble has.
func (d *testStore) commit(r *rand.Rand, b *Batch) error {
	if d.options.DisableWAL {
		return d.Apply(b, pebble.NoSync)
	}
	switch r.IntN(20) {
	case 0:
		return errors.Join(d.ApplyNoSyncWait(b, pebble.Sync), b.SyncWait())
	case 1:
		return b.Commit(pebble.Sync)
	case 2, 3, 4, 5: // through another batch
		other := d.NewBatch()
		return errors.Join(other.Apply(b, nil), other.Commit(pebble.NoSync), other.Close())
	case 6, 7, 8, 9:
		other := d.NewBatch()
		return errors.Join(other.SetRepr(b.Repr()), other.Commit(pebble.NoSync), other.Close())
	}
	return d.Apply(b, pebble.NoSync)
}

// Step does something that only Pebble can do.
func (d *testStore) Step(w *guardtest.Worker) error {
	ctx := context.Background()
	switch n := w.Rand.IntN(100); {
	case n < 50:
		return d.batch(w)
	case n < 70:
		return d.single(w)
	case n < 80:
		return d.ingest(w)
	case n < 85:
		from, to := span(w)
		removeSpan(w.Has, from, to)
		return d.Excise(ctx, pebble.KeyRange{Start: []byte(from), End: []byte(to)})
	case n == 85 && w.Rand.IntN(4) == 0:
		return d.Flush()
	case n == 86 && w.Rand.IntN(8) == 0:
		return d.Compact(ctx, []byte("a"), []byte("z"), false)
	}
	key, value := w.Key(), w.Value()
	w.Has[key] += value
	return d.Merge([]byte(key), []byte(value), pebble.NoSync)
}

// span returns the ends of a span of a worker's keys.
func span(w *guardtest.Worker) (from, to string) {
	from = w.Key()
	return from, from[:len(from)-1] + ":" // up to the next ten
}

func removeSpan(has map[string]string, from, to string) {
	maps.DeleteFunc(has, func(key, _ string) bool { return key >= from && key < to })
}

// batch commits a batch that has no index.
func (d *testStore) batch(w *guardtest.Worker) error {
	b, has := d.NewBatch(), maps.Clone(w.Has)
	var err error
	for range 1 + w.Rand.IntN(6) {
		key := w.Key()
		switch w.Rand.IntN(6) {
		case 0, 1:
			has[key] = w.Value()
			err = errors.Join(err, b.Set([]byte(key), []byte(has[key]), nil))
		case 2:
			value := w.Value()
			has[key] += value
			err = errors.Join(err, b.Merge([]byte(key), []byte(value), nil))
		case 3:
			delete(has, key)
			err = errors.Join(err, b.Delete([]byte(key), nil))
		case 4:
			delete(has, key)
			err = errors.Join(err, b.DeleteSized([]byte(key), 6, nil))
		case 5:
			from, to := span(w)
			removeSpan(has, from, to)
			err = errors.Join(err, b.DeleteRange([]byte(from), []byte(to), nil))
		}
	}
	w.Has = has
	return errors.Join(err, d.commit(w.Rand, b), b.Close())
}

// single sets or deletes keys one by one. It uses SingleDelete only for a key that was set once.
func (d *testStore) single(w *guardtest.Worker) error {
	key, once := w.Key(), []byte("once/"+w.Name+w.Value())
	w.Has[key] = w.Value()
	err := errors.Join(d.Set([]byte(key), []byte(w.Has[key]), pebble.NoSync), d.Set(once, []byte("v"), pebble.NoSync))
	key = w.Key()
	delete(w.Has, key)
	err = errors.Join(err, d.Delete([]byte(key), pebble.NoSync))
	if w.Rand.IntN(4) > 0 {
		err = errors.Join(err, d.SingleDelete(once, pebble.NoSync))
	}
	return err
}

// ingest ingests a file of sets and tombstones, and sometimes excises its span.
func (d *testStore) ingest(w *guardtest.Worker) error {
	from, to := span(w)
	excise := w.Rand.IntN(2) == 0
	if excise {
		removeSpan(w.Has, from, to)
	}
	path := filepath.Join(d.dir, "ingest "+w.Name)
	if err := writeTable(path, func(f *sstable.Writer) (err error) {
		for key := from; key < to && err == nil; key = key[:len(key)-1] + string(key[len(key)-1]+1) {
			switch w.Rand.IntN(4) {
			case 0:
				delete(w.Has, key)
				err = f.Delete([]byte(key))
			case 1, 2:
				w.Has[key] = w.Value()
				err = f.Set([]byte(key), []byte(w.Has[key]))
			}
		}
		return err
	}); err != nil {
		return err
	}
	if !excise {
		return d.Ingest(context.Background(), []string{path})
	}
	_, err := d.IngestAndExcise(context.Background(), []string{path}, nil, nil, pebble.KeyRange{Start: []byte(from), End: []byte(to)})
	return err
}
