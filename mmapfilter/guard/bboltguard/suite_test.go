package bboltguard

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// engine returns an Engine whose stores map the given number of bytes at first. With few, commits wait
// for readers.
func engine(mapped int) guardtest.Engine {
	return guardtest.Engine{
		Filter: "db" + FilterSuffix,
		Outbox: true,
		Open: func(dir string, g *guard.Options, readOnly bool) (guardtest.DB, error) {
			o := fast()
			o.InitialMmapSize, o.ReadOnly = mapped, readOnly
			return openStore(dir, o, g)
		},
		Unguarded: func(dir string, keys []string) error {
			db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, fast())
			if err != nil {
				return err
			}
			for _, key := range keys { // one transaction each, since their number must not matter
				err = errors.Join(err, db.Update(func(tx *bbolt.Tx) error {
					buckets, name := split(key)
					b, err := tx.CreateBucketIfNotExists([]byte(buckets[0]))
					if err != nil {
						return err
					}
					return b.Put(name, []byte("v"))
				}))
			}
			return errors.Join(err, db.Close())
		},
		Swap: func(dir, value string) (was string, err error) {
			db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
			if err != nil {
				return "", err
			}
			err = db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists(owner)
				if err != nil {
					return err
				}
				was = string(b.Get([]byte("k")))
				return b.Put([]byte("k"), []byte(value))
			})
			return was, errors.Join(err, db.Close())
		},
	}
}

const largeMap = 1 << 28

// fast returns the options of a store that need not be durable.
func fast() *bbolt.Options { return &bbolt.Options{NoSync: true, NoGrowSync: true} }

func TestMain(m *testing.M) { guardtest.Main(m, engine(0)) }

func TestModel(t *testing.T) {
	for _, mapped := range []int{0, largeMap} {
		t.Run(fmt.Sprintf("mapped=%d", mapped), func(t *testing.T) { guardtest.Model(t, engine(mapped)) })
	}
}

func TestKill(t *testing.T)        { guardtest.Kill(t, engine(0)) }
func TestFiles(t *testing.T)       { guardtest.Files(t, engine(largeMap)) }
func TestGrowth(t *testing.T)      { guardtest.Growth(t, engine(0)) }
func TestOnce(t *testing.T)        { guardtest.Once(t, engine(largeMap)) }
func TestBatch(t *testing.T)       { guardtest.Batch(t, engine(largeMap)) }
func TestOwner(t *testing.T)       { guardtest.Owner(t, engine(largeMap)) }
func TestPast(t *testing.T)        { guardtest.Past(t, engine(largeMap)) }
func TestAgain(t *testing.T)       { guardtest.Again(t, engine(largeMap)) }
func TestCovers(t *testing.T)      { guardtest.Covers(t, engine(largeMap)) }
func TestOldReader(t *testing.T)   { guardtest.Old(t, engine(largeMap)) }
func TestPermissions(t *testing.T) { guardtest.Mode(t, engine(0)) }

// A testStore is a DB with nested buckets: one for each slash in a key.
type testStore struct {
	*DB
	dir string
}

func openStore(dir string, o *bbolt.Options, g *guard.Options) (testStore, error) {
	d, err := Open(filepath.Join(dir, "db"), 0o600, o, g)
	if err == nil {
		d.MaxBatchDelay = 0
	}
	return testStore{d, dir}, err
}

// split returns the names of the buckets of a key, and the key in the last of them.
func split(key string) (buckets []string, name []byte) {
	parts := strings.Split(key, "/")
	return parts[:len(parts)-1], []byte(parts[len(parts)-1])
}

func (d testStore) Copy(to string) error { return guardtest.CopyDir(to, d.dir) }

func (d testStore) Get(key string) (value []byte, err error) {
	err = d.View(func(t *Tx) error { value, err = testTx{t}.Get(key); value = bytes.Clone(value); return err })
	return value, err
}

func (d testStore) Has(key string) (there bool, err error) {
	err = d.View(func(t *Tx) error { there, err = testTx{t}.Has(key); return err })
	return there, err
}

func (d testStore) AbsentBatch(keys []string) []bool {
	joined := make([]string, len(keys))
	for i, key := range keys {
		buckets, name := split(key)
		var path []byte
		for _, b := range buckets {
			path = appendName(path, []byte(b))
		}
		joined[i] = string(appendKey(path, name))
	}
	return guardtest.AbsentBatch(joined, d.DB.AbsentBatch)
}

func (d testStore) Reader() (guardtest.Reader, error) {
	t, err := d.Begin(false)
	return testTx{t}, err
}

// A testTx is a transaction that reads or writes.
type testTx struct{ *Tx }

func (t testTx) Close() error { return t.Rollback() }

// find returns the bucket of a key, or nil if there is none, and the key in it.
func (t testTx) find(key string) (b *Bucket, name []byte) {
	b = t.root
	buckets, name := split(key)
	for _, name := range buckets {
		if b = b.Bucket([]byte(name)); b == nil {
			return nil, nil
		}
	}
	return b, name
}

func (t testTx) Has(key string) (bool, error) {
	b, name := t.find(key)
	return b != nil && b.Has(name), nil
}

func (t testTx) Get(key string) ([]byte, error) {
	b, name := t.find(key)
	if b == nil {
		return nil, nil
	}
	value := b.Get(name)
	if stored := b.engineBucket.Get(name); (value == nil) != (stored == nil) || !bytes.Equal(value, stored) {
		return nil, fmt.Errorf("%q is %q, and in the store %q", key, value, stored)
	}
	return value, nil
}

func (t testTx) Stored(key string) (bool, error) {
	b := t.root.engineBucket
	buckets, name := split(key)
	for _, name := range buckets {
		if b = b.Bucket([]byte(name)); b == nil {
			return false, nil
		}
	}
	return b.Get(name) != nil, nil
}

func (t testTx) Keys() (keys []string, err error) {
	walk(t.root.engineBucket, nil, t.db.store.reserved, func(joined []byte) bool {
		name, buckets := SplitKey(joined)
		key := ""
		for _, b := range buckets {
			key += string(b) + "/"
		}
		keys = append(keys, key+string(name))
		return true
	})
	return keys, nil
}

func (t testTx) Set(key, value string) (err error) {
	b := t.root
	buckets, name := split(key)
	for _, name := range buckets {
		if b, err = b.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	return b.Put(name, []byte(value))
}

func (t testTx) Delete(key string) error {
	b, name := t.find(key)
	if b == nil {
		return nil
	}
	return b.Delete(name)
}

var errAbort = errors.New("abort")

func (d testStore) Do(r *rand.Rand, work func(guardtest.Tx) error) (err error) {
	how := r.IntN(4)
	switch how {
	case 0:
		again := r.IntN(4)
		return d.Batch(func(t *Tx) error {
			err := work(testTx{t})
			if err == nil && again == 0 {
				again = 1
				return errAbort // bbolt runs the function again, alone
			}
			return err
		})
	case 1:
		t, err := d.Begin(true)
		if err != nil {
			return err
		}
		if err := work(testTx{t}); err != nil {
			return errors.Join(err, t.Rollback())
		}
		return t.Commit()
	case 2:
		return d.Update(func(t *Tx) error { return work(testTx{t}) })
	}
	defer func() {
		if p := recover(); p != nil && p != errAbort {
			panic(p)
		}
	}()
	return d.Update(func(t *Tx) error {
		if err = work(testTx{t}); err != nil {
			panic(errAbort)
		}
		return nil
	})
}

// Step does some operations in the nested buckets of a worker.
func (d testStore) Step(w *guardtest.Worker) error {
	var has map[string]string
	abort := w.Rand.IntN(6) == 0
	err := d.Do(w.Rand, func(t guardtest.Tx) error {
		has = maps.Clone(w.Has)
		top, err := t.(testTx).CreateBucketIfNotExists([]byte(w.Name))
		if err != nil {
			return err
		}
		for range 1 + w.Rand.IntN(40) {
			b, path := top, w.Name+"/"
			for w.Rand.IntN(2) == 0 {
				name := string('x' + rune(w.Rand.IntN(3)))
				child := b.Bucket([]byte(name))
				if child == nil {
					break
				}
				b, path = child, path+name+"/"
			}
			if err := d.operation(w, has, top, b, path); err != nil {
				return err
			}
		}
		if abort {
			return errAbort
		}
		return nil
	})
	if err == nil {
		w.Has = has
	} else if abort && errors.Is(err, errAbort) {
		return nil
	}
	return err
}

// operation does something in the bucket b, whose path is path.
func (d testStore) operation(w *guardtest.Worker, has map[string]string, top, b *Bucket, path string) error {
	key := path + w.Key()[len(w.Name)+1:]
	name, child := []byte(key[len(path):]), string('x'+rune(w.Rand.IntN(3)))
	switch n := w.Rand.IntN(100); {
	case n < 45:
		has[key] = w.Value()
		return b.Put(name, []byte(has[key]))
	case n < 60:
		delete(has, key)
		return b.Delete(name)
	case n < 65:
		c := b.Cursor()
		k, v := c.Seek(name)
		if k == nil || v == nil {
			return nil
		}
		delete(has, path+string(k))
		return c.Delete()
	case n < 80:
		if got, there := string(b.Get(name)), b.Has(name); got != has[key] || there != (got != "") {
			return fmt.Errorf("get %q in a writable transaction: %q, there: %t, want %q", key, got, there, has[key])
		}
	case n < 90:
		_, err := b.CreateBucketIfNotExists([]byte(child))
		return err
	case n < 92:
		there := b.Bucket([]byte(child)) != nil
		err := b.DeleteBucket([]byte(child))
		if there != (err == nil) {
			return fmt.Errorf("delete bucket %q: %w", child, err)
		}
		removeAll(has, path+child+"/")
	case n < 95:
		if err := b.MoveBucket([]byte(child), top); err == nil {
			removeAll(has, w.Name+"/") // bbolt moves the bucket without the changes of this transaction
			readAll(has, top.engineBucket, w.Name+"/")
		}
	case n < 97:
		_, err := b.NextSequence()
		return err
	default:
		_, err := guardtest.Hidden(d, testTx{b.tx})
		return err
	}
	return nil
}

func removeAll(has map[string]string, path string) {
	maps.DeleteFunc(has, func(key, _ string) bool { return strings.HasPrefix(key, path) })
}

func readAll(has map[string]string, b *bbolt.Bucket, path string) {
	_ = b.ForEach(func(key, value []byte) error {
		if child := b.Bucket(key); child != nil {
			readAll(has, child, path+string(key)+"/")
		} else {
			has[path+string(key)] = string(value)
		}
		return nil
	})
}

func TestMethods(t *testing.T) {
	guardtest.Methods(t, []guardtest.Type{
		{
			Engine: reflect.TypeFor[*bbolt.DB](), Ours: reflect.TypeFor[*DB](),
			Wrapped:  "Batch Begin Close Update View",
			Harmless: "GoString Info IsReadOnly Logger Path Stats String Sync",
		},
		{
			Engine: reflect.TypeFor[*bbolt.Tx](), Ours: reflect.TypeFor[*Tx](),
			Wrapped: `Bucket Commit CreateBucket CreateBucketIfNotExists Cursor DB DeleteBucket ForEach Inspect MoveBucket
				OnCommit Rollback`,
			Harmless: "Check Copy CopyFile ID Page Size Stats Writable WriteTo",
		},
		{
			Engine: reflect.TypeFor[*bbolt.Bucket](), Ours: reflect.TypeFor[*Bucket](),
			Wrapped: `Bucket CreateBucket CreateBucketIfNotExists Cursor Delete DeleteBucket ForEach ForEachBucket Get
				Inspect MoveBucket Put Tx`,
			Harmless: `InSequence IncSequence InlinePage NextSequence Root RootPage Sequence SetInSequence SetSequence Stats
				String Writable`,
			Refused: "SetRootPage",
		},
		{
			Engine: reflect.TypeFor[*bbolt.Cursor](), Ours: reflect.TypeFor[*Cursor](),
			Wrapped: "Bucket Delete First Last Next Prev Seek",
		},
	})
}
