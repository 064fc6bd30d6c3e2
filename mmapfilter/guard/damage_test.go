package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A memory is a store in memory.
type memory struct{ rows map[string][]byte }

func (m *memory) Entries() (entries []Entry, err error) {
	for k, v := range m.rows {
		if k[0] == '!' {
			entries = append(entries, Entry{[]byte(k[1:]), v})
		}
	}
	return entries, nil
}

func (m *memory) Write(c Changes) error {
	for _, r := range c.Remove {
		for k := range m.rows {
			if k[0] == '!' && k[1:] >= string(r.From) && k[1:] < string(r.To) {
				delete(m.rows, k)
			}
		}
	}
	for _, e := range c.Set {
		m.rows["!"+string(e.Key)] = append([]byte(nil), e.Value...)
	}
	return nil
}

func (m *memory) Snapshot() (Snapshot, error) {
	var keys []string
	for k := range m.rows {
		if k[0] != '!' {
			keys = append(keys, k)
		}
	}
	return Snapshot{
		Keys: func(yield func([]byte, error) bool) {
			for _, k := range keys {
				if !yield([]byte(k), nil) {
					return
				}
			}
		},
		Close: func() error { return nil },
	}, nil
}

func (m *memory) Has(key []byte) (bool, error) { return m.rows[string(key)] != nil, nil }

func (m *memory) put(g *Guard, key string) {
	t := g.Begin()
	t.Put([]byte(key))
	m.Write(t.Prepare())
	m.rows[key] = []byte("v")
	t.Done(Committed)
}

// TestKeepsOthers covers G6: what is at a path that the caller has chosen stays as it is, unless a guard
// has made it. At the path that the guard has chosen it is replaced.
func TestKeepsOthers(t *testing.T) {
	filter := func(path string) error {
		f, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: 1000})
		return errors.Join(err, f.Insert([]byte("of the caller")), f.Close())
	}
	for name, make := range map[string]func(path string) error{
		"text": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("notes of the caller\n", 1000)), 0o644)
		},
		"filter": filter,
		"damaged filter": func(path string) error {
			data := []byte{1}
			err := filter(path)
			f, openErr := os.OpenFile(path, os.O_RDWR, 0)
			_, writeErr := f.WriteAt(data, 33_000)
			return errors.Join(err, openErr, writeErr, f.Close())
		},
		"cut filter":  func(path string) error { return errors.Join(filter(path), os.Truncate(path, 20_000)) },
		"no filter":   func(path string) error { return errors.Join(filter(path), os.Truncate(path, 100)) },
		"other guard": func(path string) error { return makeWith("other", (&Options{}).WithDefaults(path, Rebuild)) },
	} {
		for _, own := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "notes")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			o := (&Options{Path: path, Mode: 0o600}).WithDefaults("", Rebuild)
			if own {
				o = (&Options{Mode: 0o600}).WithDefaults(path, Rebuild)
			}
			m := &memory{map[string][]byte{}}
			g, err := Open(m, o)
			if err != nil {
				t.Fatal(err)
			}
			m.put(g, "k")
			s, ours := g.Stats(), own || name == "other guard"
			if g.Absent([]byte("k")) || (s.State == "serving") != ours || strings.Contains(s.Err, "would destroy "+path) == ours {
				t.Errorf("%s, chosen by the guard: %t: %+v", name, own, s)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			data, err := os.ReadFile(path)
			after, statErr := os.Stat(path)
			if err != nil || statErr != nil || bytes.Equal(data, before) == ours || !ours && after.Mode() != info.Mode() {
				t.Errorf("%s, chosen by the guard: %t: %v, %v, %d bytes", name, own, err, statErr, len(data))
			}
		}
	}
}

// makeWith has a guard make a filter with a key.
func makeWith(key string, o *Options) error {
	m := &memory{map[string][]byte{}}
	g, err := Open(m, o)
	if err != nil {
		return err
	}
	m.put(g, key)
	return g.Close()
}

// TestDamage changes bytes of a filter that was closed: no key is hidden.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.mmf")
	m := &memory{map[string][]byte{}}
	o := (&Options{Capacity: 2000}).WithDefaults(path, Rebuild)
	g, err := Open(m, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		m.put(g, fmt.Sprintf("k%d", i))
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := mmapfilter.Verify(context.Background(), path); err != nil || !r.Sealed {
		t.Errorf("it is not sealed: %+v, %v", r, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		data := append([]byte(nil), whole...)
		for range 1 << rng.IntN(8) {
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := Open(m, o)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 1500 {
			if g.Absent(fmt.Appendf(nil, "k%d", j)) {
				t.Fatalf("%d: key %d is hidden; %+v", i, j, g.Stats())
			}
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if whole, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
}
