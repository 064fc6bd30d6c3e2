package guard_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A kv is the imaginary store of the adapter in the essay: it has tables, transactions and
// snapshots, and is in memory. The pairs of a table are never changed, but replaced.
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

// The store of the essay's adapter behind a filter.
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

// TestEssayShowsTheAdapter holds the adapter in the essay against the one that is compiled.
func TestEssayShowsTheAdapter(t *testing.T) {
	file, err := os.ReadFile("adapter_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, adapter, _ := bytes.Cut(file, []byte("// The essay of the package shows what follows.\n\n"))
	essay, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for line := range strings.Lines(string(adapter)) {
		if line = "//\t" + line; line == "//\t\n" {
			line = "//\n"
		}
		want += line
	}
	if len(adapter) == 0 || !strings.Contains(string(essay), want) {
		t.Errorf("the essay does not show:\n%s", want)
	}
}
