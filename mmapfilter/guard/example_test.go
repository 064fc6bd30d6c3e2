package guard_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A table is a store in memory. Durable would be what is written to a disk.
type table struct {
	mu   sync.RWMutex
	rows map[string]string
	g    *guard.Guard
}

const reserved = "\x00guard\x00"

// Put is a transaction with one key: Prepare comes before it, its changes are in it, Done comes after.
func (t *table) Put(key, value string) {
	tx := t.g.Begin()
	tx.Put([]byte(key))
	c := tx.Prepare()
	t.mu.Lock()
	t.rows[key] = value
	t.change(c)
	t.mu.Unlock()
	tx.Done(guard.Committed)
}

func (t *table) Get(key string) (value string, found bool) {
	if t.g.Absent([]byte(key)) {
		return "", false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	value, found = t.rows[key]
	t.g.Found([]byte(key), found)
	return value, found
}

// The rest is the Store that the guard sees.

func (t *table) Entries() (entries []guard.Entry, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for key, value := range t.rows {
		if entry, ok := strings.CutPrefix(key, reserved); ok {
			entries = append(entries, guard.Entry{Key: []byte(entry), Value: []byte(value)})
		}
	}
	slices.SortFunc(entries, func(a, b guard.Entry) int { return bytes.Compare(a.Key, b.Key) })
	return entries, nil
}

func (t *table) Write(c guard.Changes) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(c)
	return nil
}

func (t *table) change(c guard.Changes) {
	for _, r := range c.Remove {
		for key := range t.rows {
			if strings.HasPrefix(key, reserved) && key[len(reserved):] >= string(r.From) && key[len(reserved):] < string(r.To) {
				delete(t.rows, key)
			}
		}
	}
	for _, e := range c.Set {
		t.rows[reserved+string(e.Key)] = string(e.Value)
	}
}

func (t *table) Snapshot() (guard.Snapshot, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var keys []string
	for key := range t.rows {
		if !strings.HasPrefix(key, reserved) {
			keys = append(keys, key)
		}
	}
	return guard.Snapshot{
		Keys: func(yield func([]byte, error) bool) {
			for _, key := range keys {
				if !yield([]byte(key), nil) {
					return
				}
			}
		},
		Close: func() error { return nil },
	}, nil
}

func (t *table) Has(key []byte) (bool, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, found := t.rows[string(key)]
	return found, nil
}

// A whole adapter for a store that the guard does not know.
func Example() {
	dir, err := os.MkdirTemp("", "guard")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var o *guard.Options // the defaults
	t := &table{rows: map[string]string{}}
	if t.g, err = guard.Open(t, o.WithDefaults(filepath.Join(dir, "keys.mmf"), guard.Rebuild)); err != nil {
		fmt.Println(err)
		return
	}
	defer t.g.Close()
	t.Put("apple", "red")
	fmt.Println(t.Get("apple"))
	fmt.Println(t.Get("pear"))
	fmt.Println("skipped:", t.g.Stats().Skipped)
	// Output:
	// red true
	//  false
	// skipped: 1
}
