package guard_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A DB is a kv behind a filter. It is the adapter of kv.
type DB struct {
	kv *kv
	g  *guard.Guard
}

func (d *DB) Put(key, value []byte) error {
	tx := d.g.Begin()
	tx.Put(key)
	c := tx.Prepare()
	if err := d.kv.Update(func(t *kvTx) { t.Set("keys", key, value); change(t, c) }); err != nil {
		tx.Done(guard.Unknown) // in spite of the error, the key may have been set
		return err
	}
	tx.Done(guard.Committed)
	return nil
}

func (d *DB) Get(key []byte) (value []byte, found bool) {
	if d.g.Absent(key) {
		return nil, false
	}
	value, found = d.kv.Get("keys", key)
	d.g.Found(key, found)
	return value, found
}

func change(t *kvTx, c guard.Changes) {
	for _, r := range c.Remove {
		t.DeleteRange("guard", r.From, r.To)
	}
	for _, e := range c.Set {
		t.Set("guard", e.Key, e.Value)
	}
}

// The following methods make the DB a guard.Store.

func (d *DB) Write(c guard.Changes) error { return d.kv.Update(func(t *kvTx) { change(t, c) }) }

func (d *DB) Entries() (entries []guard.Entry, err error) {
	for key, value := range d.kv.Snapshot("guard").Pairs {
		entries = append(entries, guard.Entry{Key: key, Value: value})
	}
	return entries, nil
}

func (d *DB) Snapshot() (guard.Snapshot, error) {
	s := d.kv.Snapshot("keys")
	return guard.Snapshot{Keys: s.Keys, Close: s.Close}, nil
}

func (d *DB) Has(key []byte) (bool, error) { return d.kv.Has("keys", key), nil }

// A kv is an imaginary store in memory. It has tables, transactions and snapshots. The map of a table
// is never changed, only replaced.
type kv struct {
	mu     sync.RWMutex
	tables map[string]map[string]string
}

// A kvTx is a transaction.
type kvTx struct{ tables map[string]map[string]string }

func (t *kvTx) Set(table string, key, value []byte) { t.tables[table][string(key)] = string(value) }

func (t *kvTx) DeleteRange(table string, from, to []byte) {
	maps.DeleteFunc(t.tables[table], func(key, _ string) bool { return key >= string(from) && key < string(to) })
}

// Update does a transaction. Here it always succeeds.
func (s *kv) Update(do func(t *kvTx)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &kvTx{map[string]map[string]string{"keys": {}, "guard": {}}}
	for table, pairs := range s.tables {
		maps.Copy(t.tables[table], pairs)
	}
	do(t)
	s.tables = t.tables
	return nil
}

func (s *kv) Get(table string, key []byte) (value []byte, found bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, found := s.tables[table][string(key)]
	return []byte(v), found
}

func (s *kv) Has(table string, key []byte) bool {
	_, found := s.Get(table, key)
	return found
}

// A kvSnapshot is a table at some instant.
type kvSnapshot struct{ pairs map[string]string }

func (s *kv) Snapshot(table string) kvSnapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return kvSnapshot{s.tables[table]}
}

func (s kvSnapshot) Pairs(yield func(key, value []byte) bool) {
	for _, key := range slices.Sorted(maps.Keys(s.pairs)) {
		if !yield([]byte(key), []byte(s.pairs[key])) {
			return
		}
	}
}

func (s kvSnapshot) Keys(yield func(key []byte, err error) bool) {
	s.Pairs(func(key, _ []byte) bool { return yield(key, nil) })
}

func (s kvSnapshot) Close() error { return nil }

// An imaginary store and its adapter, which keeps the entries of the guard in a table of their own.
func Example() {
	dir, err := os.MkdirTemp("", "guard")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var o *guard.Options // the defaults
	d := &DB{kv: new(kv)}
	if d.g, err = guard.Open(d, o.WithDefaults(filepath.Join(dir, "keys.mmf"), guard.Rebuild)); err != nil {
		fmt.Println(err)
		return
	}
	defer d.g.Close()
	if err := d.Put([]byte("apple"), []byte("red")); err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"apple", "pear"} {
		value, found := d.Get([]byte(key))
		fmt.Printf("%s: %q %t\n", key, value, found)
	}
	fmt.Println("skipped:", d.g.Stats().Skipped)
	// Output:
	// apple: "red" true
	// pear: "" false
	// skipped: 1
}
