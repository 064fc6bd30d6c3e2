package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/badgerguard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/bboltguard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/pebbleguard"
)

// A store is an engine with some keys, alone or behind a guard.
type store interface {
	// put commits a transaction that puts keys with one value.
	put(keys [][]byte, value []byte, sync bool) error
	get(key []byte) (found bool, err error)
	// skipped returns how many reads did not reach the store.
	skipped() uint64
	Close() error
}

// A storeKind is a store with or without a filter. Engines have a cache of 8 MiB.
type storeKind struct {
	engine, filter string
	open           func(dir string, g *guard.Options) (store, error)
}

const (
	storeCache = 8 << 20
	alone      = "alone"
	ownBloom   = "its own Bloom filter"
	guarded    = "guard"
)

func storeKinds() []storeKind {
	return []storeKind{
		{"pebble", alone, openPebble(false)},
		{"pebble", ownBloom, openPebble(true)},
		{"pebble", guarded, func(dir string, g *guard.Options) (store, error) {
			d, err := pebbleguard.Open(dir, pebbleOptions(false), g)
			return pebbleStore[*pebbleguard.Batch]{d}, err
		}},
		{"bbolt", alone, func(dir string, _ *guard.Options) (store, error) {
			d, err := bbolt.Open(boltFile(dir), 0o600, nil)
			return boltStore[*bbolt.Tx, *bbolt.Bucket]{d}, err
		}},
		{"bbolt", guarded, func(dir string, g *guard.Options) (store, error) {
			d, err := bboltguard.Open(boltFile(dir), 0o600, nil, g)
			return boltStore[*bboltguard.Tx, *bboltguard.Bucket]{d}, err
		}},
		{"badger", alone, openBadger(0)},
		{"badger", ownBloom, openBadger(0.01)},
		{"badger", guarded, func(dir string, g *guard.Options) (store, error) {
			d, err := badgerguard.Open(badgerOptions(dir, 0), g)
			return badgerStore[*badgerguard.Txn]{d}, err
		}},
	}
}

// skippedBy is store.skipped of a database, which may be a guard.
func skippedBy(db any) uint64 {
	if g, ok := db.(interface{ GuardStats() guard.Stats }); ok {
		return g.GuardStats().Skipped
	}
	return 0
}

type silent struct{}

func (silent) Infof(string, ...any)    {}
func (silent) Errorf(string, ...any)   {}
func (silent) Fatalf(string, ...any)   {}
func (silent) Warningf(string, ...any) {}
func (silent) Debugf(string, ...any)   {}

// unless returns err, or nil if err is the expected one.
func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// A pebbleDB is a pebble.DB, or its guard, with batches of type B. The interfaces below have the
// same purpose.
type pebbleDB[B pebbleBatch] interface {
	Set(key, value []byte, o *pebble.WriteOptions) error
	Get(key []byte) ([]byte, io.Closer, error)
	NewBatch(...pebble.BatchOption) B
	Close() error
}

type pebbleBatch interface {
	Set(key, value []byte, o *pebble.WriteOptions) error
	Commit(*pebble.WriteOptions) error
	Close() error
}

type pebbleStore[B pebbleBatch] struct{ pebbleDB[B] }

func pebbleOptions(withBloom bool) *pebble.Options {
	o := &pebble.Options{CacheSize: storeCache, Logger: silent{}, FormatMajorVersion: pebble.FormatNewest}
	if withBloom {
		for i := range o.Levels {
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
	}
	return o
}

func openPebble(withBloom bool) func(string, *guard.Options) (store, error) {
	return func(dir string, _ *guard.Options) (store, error) {
		d, err := pebble.Open(dir, pebbleOptions(withBloom))
		return pebbleStore[*pebble.Batch]{d}, err
	}
}

func (s pebbleStore[B]) skipped() uint64 { return skippedBy(s.pebbleDB) }

func (s pebbleStore[B]) put(keys [][]byte, value []byte, sync bool) (err error) {
	how := pebble.NoSync
	if sync {
		how = pebble.Sync
	}
	if len(keys) == 1 {
		return s.Set(keys[0], value, how)
	}
	b := s.NewBatch()
	for _, key := range keys {
		err = errors.Join(err, b.Set(key, value, nil))
	}
	return errors.Join(err, b.Commit(how), b.Close())
}

func (s pebbleStore[B]) get(key []byte) (bool, error) {
	_, value, err := s.Get(key)
	if err != nil {
		return false, unless(err, pebble.ErrNotFound)
	}
	return true, value.Close()
}

type boltDB[T any] interface {
	Update(func(T) error) error
	View(func(T) error) error
	Close() error
}

type boltTx[B boltBucket] interface {
	CreateBucketIfNotExists(name []byte) (B, error)
	Bucket(name []byte) B
}

type boltBucket interface {
	Put(key, value []byte) error
	Get(key []byte) []byte
}

type boltStore[T boltTx[B], B boltBucket] struct{ boltDB[T] }

var bucket = []byte("bucket")

// boltFile returns the name of the file of a store, and makes its directory.
func boltFile(dir string) string {
	os.MkdirAll(dir, 0o700) // if this fails, opening the file does
	return filepath.Join(dir, "db")
}

func (s boltStore[T, B]) skipped() uint64 { return skippedBy(s.boltDB) }

func (s boltStore[T, B]) put(keys [][]byte, value []byte, _ bool) error {
	return s.Update(func(tx T) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		for i := 0; i < len(keys) && err == nil; i++ {
			err = b.Put(keys[i], value)
		}
		return err
	})
}

func (s boltStore[T, B]) get(key []byte) (found bool, err error) {
	err = s.View(func(tx T) error { found = tx.Bucket(bucket).Get(key) != nil; return nil })
	return found, err
}

type badgerDB[T badgerTxn] interface {
	Update(func(T) error) error
	View(func(T) error) error
	Sync() error
	Close() error
}

type badgerTxn interface {
	Set(key, value []byte) error
	Get(key []byte) (*badger.Item, error)
}

type badgerStore[T badgerTxn] struct{ badgerDB[T] }

func badgerOptions(dir string, bloom float64) badger.Options {
	o := badger.DefaultOptions(dir).WithLogger(silent{}).WithBlockCacheSize(storeCache).WithIndexCacheSize(storeCache)
	o.BloomFalsePositive = bloom
	return o
}

func openBadger(bloom float64) func(string, *guard.Options) (store, error) {
	return func(dir string, _ *guard.Options) (store, error) {
		d, err := badger.Open(badgerOptions(dir, bloom))
		return badgerStore[*badger.Txn]{d}, err
	}
}

func (s badgerStore[T]) skipped() uint64 { return skippedBy(s.badgerDB) }

func (s badgerStore[T]) put(keys [][]byte, value []byte, sync bool) error {
	err := s.Update(func(tx T) error {
		for _, key := range keys {
			if err := tx.Set(bytes.Clone(key), value); err != nil { // Badger keeps the key until the commit
				return err
			}
		}
		return nil
	})
	if err == nil && sync {
		err = s.Sync()
	}
	return err
}

func (s badgerStore[T]) get(key []byte) (found bool, err error) {
	err = s.View(func(tx T) error {
		_, err := tx.Get(key)
		found = err == nil
		return unless(err, badger.ErrKeyNotFound)
	})
	return found, err
}
