package mmapfilter

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// offers yields each of n keys ten times, in an order in which all offers of a key are within a window.
func offers(seed uint64, n, window int, do func(key uint64)) {
	rng := rand.New(rand.NewPCG(seed, 0))
	window = min(window, 10*n)
	order := make([]uint64, window)
	for from := 0; from < 10*n; from += window {
		for i := range order {
			order[i] = uint64(from/10 + i%(window/10))
		}
		rng.Shuffle(window, func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, key := range order {
			do(key)
		}
	}
}

// TestRepeats covers K5 and K7 for keys that are offered to InsertUnique again and again, while the
// filter grows: it has each of them, NAME.hashes stays short, and a rebuild gives each an item.
func TestRepeats(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 40_000
	}
	for name, window := range map[string]int{"local": 20_000, "uniform": 10 * n} {
		t.Run(name, func(t *testing.T) {
			f, path := createGrowing(t, 1000)
			var key [8]byte
			asked := 0
			offers(1, n, window, func(k uint64) {
				binary.LittleEndian.PutUint64(key[:], k)
				if _, err := f.InsertUnique(key[:]); err != nil {
					t.Fatal(err)
				}
				if asked++; asked%5000 == 0 {
					if !f.Contains(key[:]) {
						t.Fatalf("key %d is lost", k)
					}
					awaitGrowth(f) // until then, what comes meanwhile is in the file, too
					mustBeShort(t, path, f.Len())
				}
			})
			mustHave(t, f, 0, uint64(n))
			if items := int(f.Len()); items > n || items < n-n/50 { // of a hundred keys, one looks like others
				t.Errorf("%d items of %d keys", items, n)
			}
			if err := f.Rebuild(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			if mustHave(t, f, 0, uint64(n)); f.Len() != uint64(n) {
				t.Errorf("%d items of %d keys after a rebuild", f.Len(), n)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			mustBeShort(t, path, uint64(n))
		})
	}
}
