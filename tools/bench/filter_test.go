package main

import (
	"encoding/binary"
	"errors"
	"testing"
)

// mapFilter is a filter without false positives, which refuses keys that it has no room for.
func mapFilter(room int, seed uint64) *Filter {
	has := map[string]bool{}
	return &Filter{
		Seed: seed,
		Size: func() int64 { return int64(16 * room) },
		Insert: Until(func(key []byte) bool {
			if len(has) == room {
				return false
			}
			has[string(key)] = true
			return true
		}),
		Contains: Each(func(key []byte) bool { return has[string(key)] }),
		Delete:   Each(func(key []byte) bool { in := has[string(key)]; delete(has, string(key)); return in }),
	}
}

// TestKey compares keys with the published outputs of SplitMix64 for seed 1234567.
func TestKey(t *testing.T) {
	want := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431}
	for i := range uint64(2) {
		var k Key
		k.Set(1234567, i)
		if a, b := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:]); a != want[2*i] || b != want[2*i+1] {
			t.Errorf("key %d is %d, %d", i, a, b)
		}
	}
	seen := map[Key]bool{}
	for _, start := range []uint64{0, Absent} {
		for i := range uint64(1000) {
			var k Key
			k.Set(1, start+i)
			seen[k] = true
		}
	}
	if len(seen) != 2000 {
		t.Errorf("2,000 numbers stand for %d keys", len(seen))
	}
}

// exercise calls every function of a filter for n keys. n must be more than a block.
func exercise(t *testing.T, f *Filter, n uint64) {
	t.Helper()
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := f.Size(); got != int64(16*n) {
		t.Errorf("the filter has %d bytes", got)
	}
	for _, c := range []struct {
		name     string
		do       func(first, n uint64) (Count, error)
		first, n uint64
		want     uint64
	}{
		{"add", f.Add, 0, n - 10, n - 10},
		{"add to a full one", f.Add, n - 10, 3 * BlockKeys, 10},
		{"ask for all", f.Ask, 0, n, n},
		{"ask for the others", f.Ask, n, n, 0},
		{"remove", f.Remove, 5, 7, 7},
		{"remove again", f.Remove, 0, 13, 6},
		{"ask", f.Ask, 0, n, n - 13},
		{"ask for none", f.Ask, 0, 0, 0},
	} {
		got, err := c.do(c.first, c.n)
		if err != nil || got.Keys != c.want || got.Clock < 0 || got.Processor < 0 {
			t.Errorf("%s: %+v, %v, want %d", c.name, got, err, c.want)
		}
	}
}

func TestLocal(t *testing.T) {
	exercise(t, mapFilter(2*BlockKeys+100, 3), 2*BlockKeys+100)
	var none Filter
	for _, do := range []func(first, n uint64) (Count, error){none.Add, none.Ask, none.Remove} {
		if _, err := do(0, 1); !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
	}
	// If a key is refused, later keys must not be tried.
	tried := uint64(0)
	picky := &Filter{Insert: Until(func([]byte) bool { tried++; return tried != BlockKeys+6 })}
	if c, err := picky.Add(0, 3*BlockKeys); err != nil || c.Keys != BlockKeys+5 || tried != BlockKeys+6 {
		t.Errorf("%d keys were tried, %d accepted, %v", tried, c.Keys, err)
	}
	failed := errors.New("the disk has failed")
	f := mapFilter(10, 1)
	f.Err = func() error { return failed }
	if _, err := f.Add(0, 1); !errors.Is(err, failed) {
		t.Error(err)
	}
}
