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
	close() error
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
		{"pebble", alone, func(dir string, _ *guard.Options) (store, error) { return openPebble(dir, false) }},
		{"pebble", ownBloom, func(dir string, _ *guard.Options) (store, error) { return openPebble(dir, true) }},
		{"pebble", guarded, func(dir string, g *guard.Options) (store, error) {
			d, err := pebbleguard.Open(dir, pebbleOptions(false), g)
			return guardedPebble{d}, err
		}},
		{"bbolt", alone, openBolt},
		{"bbolt", guarded, func(dir string, g *guard.Options) (store, error) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			d, err := bboltguard.Open(filepath.Join(dir, "db"), 0o600, nil, g)
			return guardedBolt{d}, err
		}},
		{"badger", alone, func(dir string, _ *guard.Options) (store, error) { return openBadger(dir, 0) }},
		{"badger", ownBloom, func(dir string, _ *guard.Options) (store, error) { return openBadger(dir, 0.01) }},
		{"badger", guarded, func(dir string, g *guard.Options) (store, error) {
			d, err := badgerguard.Open(badgerOptions(dir, 0), g)
			return guardedBadger{d}, err
		}},
	}
}

type silent struct{}

func (silent) Infof(string, ...any)    {}
func (silent) Errorf(string, ...any)   {}
func (silent) Fatalf(string, ...any)   {}
func (silent) Warningf(string, ...any) {}
func (silent) Debugf(string, ...any)   {}

func pebbleOptions(withBloom bool) *pebble.Options {
	o := &pebble.Options{CacheSize: storeCache, Logger: silent{}, FormatMajorVersion: pebble.FormatNewest}
	if withBloom {
		for i := range o.Levels {
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
	}
	return o
}

func writeOptions(sync bool) *pebble.WriteOptions {
	if sync {
		return pebble.Sync
	}
	return pebble.NoSync
}

type plainPebble struct{ *pebble.DB }

func openPebble(dir string, withBloom bool) (store, error) {
	d, err := pebble.Open(dir, pebbleOptions(withBloom))
	return plainPebble{d}, err
}

func (d plainPebble) skipped() uint64 { return 0 }
func (d plainPebble) close() error    { return d.Close() }

func (d plainPebble) put(keys [][]byte, value []byte, sync bool) error {
	if len(keys) == 1 {
		return d.Set(keys[0], value, writeOptions(sync))
	}
	return putPebble(d.NewBatch(), keys, value, sync)
}

func (d plainPebble) get(key []byte) (bool, error) { return foundPebble(d.Get(key)) }

// unless returns err, or nil if err is the expected one.
func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// putPebble puts keys into a batch and commits it.
func putPebble(b interface {
	Set(key, value []byte, _ *pebble.WriteOptions) error
	Commit(*pebble.WriteOptions) error
	Close() error
}, keys [][]byte, value []byte, sync bool) (err error) {
	for _, key := range keys {
		err = errors.Join(err, b.Set(key, value, nil))
	}
	return errors.Join(err, b.Commit(writeOptions(sync)), b.Close())
}

// foundPebble reports whether a Get has found its key.
func foundPebble(_ []byte, c io.Closer, err error) (bool, error) {
	if err != nil {
		return false, unless(err, pebble.ErrNotFound)
	}
	return true, c.Close()
}

type guardedPebble struct{ *pebbleguard.DB }

func (d guardedPebble) skipped() uint64 { return d.GuardStats().Skipped }
func (d guardedPebble) close() error    { return d.Close() }

func (d guardedPebble) put(keys [][]byte, value []byte, sync bool) error {
	if len(keys) == 1 {
		return d.Set(keys[0], value, writeOptions(sync))
	}
	return putPebble(d.NewBatch(), keys, value, sync)
}

func (d guardedPebble) get(key []byte) (bool, error) { return foundPebble(d.Get(key)) }

// each puts each key with the value.
func each(keys [][]byte, value []byte, put func(key, value []byte) error) error {
	for _, key := range keys {
		if err := put(key, value); err != nil {
			return err
		}
	}
	return nil
}

var bucket = []byte("bucket")

type plainBolt struct{ *bbolt.DB }

func openBolt(dir string, _ *guard.Options) (store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	return plainBolt{d}, err
}

func (d plainBolt) skipped() uint64 { return 0 }
func (d plainBolt) close() error    { return d.Close() }

func (d plainBolt) put(keys [][]byte, value []byte, _ bool) error {
	return d.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return each(keys, value, b.Put)
	})
}

func (d plainBolt) get(key []byte) (found bool, err error) {
	err = d.View(func(tx *bbolt.Tx) error { found = tx.Bucket(bucket).Get(key) != nil; return nil })
	return found, err
}

type guardedBolt struct{ *bboltguard.DB }

func (d guardedBolt) skipped() uint64 { return d.GuardStats().Skipped }
func (d guardedBolt) close() error    { return d.Close() }

func (d guardedBolt) put(keys [][]byte, value []byte, _ bool) error {
	return d.Update(func(tx *bboltguard.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return each(keys, value, b.Put)
	})
}

func (d guardedBolt) get(key []byte) (found bool, err error) {
	err = d.View(func(tx *bboltguard.Tx) error { found = tx.Bucket(bucket).Get(key) != nil; return nil })
	return found, err
}

func badgerOptions(dir string, bloom float64) badger.Options {
	o := badger.DefaultOptions(dir).WithLogger(silent{}).WithBlockCacheSize(storeCache).WithIndexCacheSize(storeCache)
	o.BloomFalsePositive = bloom
	return o
}

type plainBadger struct{ *badger.DB }

func openBadger(dir string, bloom float64) (store, error) {
	d, err := badger.Open(badgerOptions(dir, bloom))
	return plainBadger{d}, err
}

func (d plainBadger) skipped() uint64 { return 0 }
func (d plainBadger) close() error    { return d.Close() }

func (d plainBadger) put(keys [][]byte, value []byte, sync bool) error {
	err := d.Update(func(tx *badger.Txn) error {
		return each(keys, value, func(key, value []byte) error {
			return tx.Set(bytes.Clone(key), value) // Badger keeps the key until the commit
		})
	})
	if err == nil && sync {
		err = d.Sync()
	}
	return err
}

func (d plainBadger) get(key []byte) (found bool, err error) {
	err = d.View(func(tx *badger.Txn) error {
		_, err := tx.Get(key)
		found = err == nil
		return unless(err, badger.ErrKeyNotFound)
	})
	return found, err
}

type guardedBadger struct{ *badgerguard.DB }

func (d guardedBadger) skipped() uint64 { return d.GuardStats().Skipped }
func (d guardedBadger) close() error    { return d.Close() }

func (d guardedBadger) put(keys [][]byte, value []byte, sync bool) error {
	err := d.Update(func(tx *badgerguard.Txn) error {
		return each(keys, value, func(key, value []byte) error {
			return tx.Set(bytes.Clone(key), value) // Badger keeps the key until the commit
		})
	})
	if err == nil && sync {
		err = d.Sync()
	}
	return err
}

func (d guardedBadger) get(key []byte) (found bool, err error) {
	err = d.View(func(tx *badgerguard.Txn) error {
		_, err := tx.Get(key)
		found = err == nil
		return unless(err, badger.ErrKeyNotFound)
	})
	return found, err
}
