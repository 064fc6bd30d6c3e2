package layout

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// eachKernel runs f with each kernel that there is for this architecture.
func eachKernel(t *testing.T, f func(t *testing.T)) {
	names := []string{"go"}
	if runtime.GOARCH == "amd64" {
		names = []string{"avx512", "avx2", "go"}
	}
	before := Kernel()
	defer UseKernel(before)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if err := UseKernel(name); err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			f(t)
		})
	}
}

func TestUseKernel(t *testing.T) {
	list := Kernels()
	if Kernel() != list[0] || list[len(list)-1] != "go" {
		t.Errorf("%s of %v", Kernel(), list)
	}
	if err := UseKernel("abacus"); err == nil || Kernel() != list[0] {
		t.Errorf("%v; then it is %s", err, Kernel())
	}
}

// randomView is of no filter that anything built: any content will do.
func randomView(rng *rand.Rand, words int) *View {
	v := &View{Region: make([]uint64, words), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
	for i := range v.Region {
		v.Region[i] = rng.Uint64() & rng.Uint64()
	}
	return v
}

// TestFirstLookEqualsGo: the first look of a kernel settles what that in Go settles,
// and leaves open what that leaves open.
func TestFirstLookEqualsGo(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		eachTable(t, 50, func(t *testing.T, tab Table) {
			b, ok := tab.(*blocked)
			if !ok {
				return
			}
			rng := rand.New(rand.NewPCG(11, 12))
			v := randomView(rng, 400)
			var seen [2][2]int
			for i := range 20_000 {
				if i%100 == 0 {
					v.Runtime[RuntimeEpoch] = uint64(rng.IntN(20) / 19)
					Counters(func(word uint64) { v.Runtime[word] = 2*rng.Uint64N(5) + uint64(rng.IntN(50)/49) })
				}
				h := rng.Uint64()
				found, open := b.FirstLook(v, h)
				if f, o := b.firstLook(v, h); found != f || open != o {
					t.Fatalf("%#x: found %t, open %t; in Go %t, %t", h, found, open, f, o)
				}
				seen[ones(found)][ones(open)]++
			}
			if seen[0][0] == 0 || seen[0][1] == 0 || seen[1][1] != 0 {
				t.Errorf("found and open: %v", seen)
			}
		})
	})
}

func ones(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestBatchEqualsSingle, at every length around the size of a group and at some
// around that of a block, wherever in memory a batch begins; and where a few
// removal counters are odd, or the epoch is.
func TestBatchEqualsSingle(t *testing.T) {
	lengths := []int{lookupBlock - 1, lookupBlock, lookupBlock + 1, 2*lookupBlock + openBits + 1}
	for n := range 3*prefetchAhead + 2 {
		lengths = append(lengths, n)
	}
	eachKernel(t, func(t *testing.T) {
		eachTable(t, 50, func(t *testing.T, tab Table) {
			if tab.Kernel() != Kernel() {
				return // tested with its own
			}
			rng := rand.New(rand.NewPCG(9, 10))
			v := randomView(rng, 400)
			for _, n := range lengths {
				v.Runtime[RuntimeEpoch] = uint64(rng.IntN(20) / 19)
				Counters(func(word uint64) { v.Runtime[word] = 2*rng.Uint64N(5) + uint64(rng.IntN(50)/49) })
				from := rng.IntN(9)
				hashes, found := make([]uint64, from+n)[from:], make([]bool, from+n+1)[from:]
				for i := range hashes {
					hashes[i] = rng.Uint64()
				}
				found[n] = true
				tab.ContainsHashes(v, hashes, found)
				for i, h := range hashes {
					if found[i] != tab.Lookup(v.At, h) {
						t.Fatalf("hash %d of %d: %t", i, n, found[i])
					}
					if found[i] != tab.Contains(v, h) {
						t.Fatalf("hash %d of %d, alone: %t", i, n, !found[i])
					}
				}
				if !found[n] {
					t.Fatalf("wrote past %d answers", n)
				}
			}
		})
	})
}

// BenchmarkKernels asks for hashes in batches: of a table in the cache of a core,
// and of one of 1 GiB, half full of items. "limit" reads a word of the line of each
// hash, which has been asked for 64 hashes before. All take turns, and the medians
// of the rounds are reported.
//
//	go test ./layout -run '^$' -bench Kernels
func BenchmarkKernels(b *testing.B) {
	for _, lines := range []uint64{1 << 12, 1 << 24} {
		g, err := NewGeometry(Blocked, Params{12, 5}, lines)
		if err != nil {
			b.Fatal(err)
		}
		tab := NewTable(g).(*blocked)
		rng := rand.New(rand.NewPCG(1, lines))
		v := &View{Region: make([]uint64, lines*buckets), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
		for i := range v.Region { // a slot in twenty is free, and an overflow bit in eight set
			for s := range tab.b {
				if rng.IntN(20) > 0 {
					v.Region[i] |= (1 + rng.Uint64N(tab.values)) << (s * tab.f)
				}
			}
			v.Region[i] |= (rng.Uint64() & rng.Uint64() & rng.Uint64()) &^ (1<<overflowLow - 1)
		}
		for _, batch := range []int{64, 4096} {
			b.Run(fmt.Sprintf("KiB=%d/batch=%d", g.RegionBytes>>10, batch), func(b *testing.B) {
				const rounds, hashes = 15, 1 << 18
				h, found := make([]uint64, hashes), make([]bool, hashes)
				type way struct {
					name string
					ask  func(h []uint64, found []bool)
					took []time.Duration
				}
				ways := []*way{{name: "limit", ask: func(h []uint64, found []bool) { limit(tab, v, h) }}}
				for _, name := range Kernels() {
					ways = append(ways, &way{name: name, ask: func(h []uint64, found []bool) {
						UseKernel(name)
						for ; len(h) > 0; h, found = h[batch:], found[batch:] {
							tab.ContainsHashes(v, h[:batch], found[:batch])
						}
					}})
				}
				defer UseKernel(Kernel())
				for range rounds {
					for _, w := range ways {
						for i := range h {
							h[i] = rng.Uint64()
						}
						begun := time.Now()
						w.ask(h, found)
						w.took = append(w.took, time.Since(begun))
					}
				}
				least := 0.0
				for _, w := range ways {
					slices.Sort(w.took)
					ns := float64(w.took[rounds/2]) / hashes
					b.ReportMetric(ns, w.name+"-ns/key")
					if w.name == "limit" {
						least = ns
						continue
					}
					b.ReportMetric(ns/least, w.name+"/limit")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

var sum uint64

func limit(tab *blocked, v *View, hashes []uint64) {
	at := func(h uint64) *uint64 {
		line, _ := SplitHash(h, tab.lines)
		return &v.Region[line*buckets]
	}
	for _, h := range hashes[:prefetchAhead] {
		Prefetch(at(h))
	}
	for i, h := range hashes[:len(hashes)-prefetchAhead] {
		Prefetch(at(hashes[i+prefetchAhead]))
		sum += *at(h)
	}
}
