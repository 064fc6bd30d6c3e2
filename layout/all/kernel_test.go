package all_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/kernel/kerneltest"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestFirstLookEqualsGo: the first look of a kernel settles the lookups that the first
// look in Go settles, and leaves the others open; but in Compact it may leave a lookup
// open if the run of remainders is long, and a kernel for batches may leave all lookups
// open if a counter is odd.
func TestFirstLookEqualsGo(t *testing.T) {
	kerneltest.Each(t, func(t *testing.T) {
		layouttest.Each(t, 50, func(t *testing.T, tab layout.Table) {
			if layout.KernelOf(tab) != kernel.InUse().String() {
				return
			}
			rng := rand.New(rand.NewPCG(11, 12))
			hashes := make([]uint64, 3000)
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			var v *layout.View
			var seen [2][2]int
			long := 0
			for round := range 30 {
				if round%3 == 0 {
					v = randomView(rng, tab, hashes[:100*round])
				}
				odd := randomCounters(rng, v)
				found, open := make([]bool, len(hashes)), make([]uint8, len(hashes)/kernel.Group)
				layout.FirstLooks(tab, v, hashes, found, open)
				for i, h := range hashes {
					f, o := firstLookInGo(tab, v, h)
					alone, openAlone := tab.FirstLook(v, h)
					if layouttest.Both(tab) {
						if !openAlone {
							t.Fatalf("%#x: the first of two lines settled the lookup", h)
						}
						alone, openAlone = f, o
					}
					isOpen := open[i/kernel.Group]>>(i%kernel.Group)&1 != 0
					if odd && isOpen {
						isOpen = o
					}
					if tab.Kind() == layout.Compact && !o && (openAlone && !alone || isOpen) {
						long++
					} else if alone != f || openAlone != o || found[i] != f && !isOpen || isOpen != o {
						t.Fatalf("%#x: found %t, open %t; in a batch %t, %t; in Go %t, %t", h, alone, openAlone, found[i], isOpen, f, o)
					}
					seen[ones(f)][ones(o)]++
				}
			}
			if layouttest.Both(tab) {
				return // a look at one bucket never settles "certainly not"
			}
			if seen[0][0] == 0 || seen[0][1] == 0 || seen[1][0] == 0 && tab.Params().Fingerprints() < 1<<20 || seen[1][1] != 0 {
				t.Errorf("found and open: %v", seen)
			}
			if all := 30 * len(hashes); long > all/10 { // most with Q=16 r=4, where a run is longest
				t.Errorf("%d of %d are left open for long runs", long, all)
			}
		})
	})
}

// An overtaken table is changed right after the first looks of a batch.
type overtaken struct {
	layout.Table
	change func()
}

func (o overtaken) FirstLooks(v *layout.View, hashes []uint64, found []bool, open []uint8) (done int) {
	defer o.change()
	return o.Table.(interface {
		FirstLooks(v *layout.View, hashes []uint64, found []bool, open []uint8) (done int)
	}).FirstLooks(v, hashes, found, open)
}

func (o overtaken) Kernel() string { return layout.KernelOf(o.Table) }

// TestFirstLooksLoadCountersAgain: if the epoch or the counter of a line goes up by an even number
// after a first look at the line, the lookup is open; in a batch, all lookups are.
func TestFirstLooksLoadCountersAgain(t *testing.T) {
	kerneltest.Each(t, func(t *testing.T) {
		layouttest.Each(t, 250, func(t *testing.T, tab layout.Table) {
			if layouttest.Both(tab) {
				return // the first looks in these layouts answer nothing
			}
			rng := rand.New(rand.NewPCG(17, 18))
			hashes, found, open := make([]uint64, 2*kernel.Group), make([]bool, 2*kernel.Group), make([]uint8, 2)
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			home := tab.Split(hashes[0]).Line
			v := layouttest.View(tab)
			// The bits that change in one counter are set in the others: a look must not cancel them.
			layout.Counters(func(word uint64) { v.Runtime[word] = 1<<40 - 2 })
			for name, word := range map[string]uint64{"counter": blockCounter(home), "epoch": layout.RuntimeEpoch} {
				change := func() { v.Runtime[word] += 2 }
				if _, isOpen := layout.FirstLook(&moving{tab, home, change}, v, hashes[0]); !isOpen {
					t.Errorf("a look does not see the %s go up", name)
				}
				if layout.KernelOf(tab) == kernel.Go.String() {
					continue
				}
				clear(open)
				if layout.FirstLooks(overtaken{tab, change}, v, hashes, found, open); open[0]&open[1] != 0xff {
					t.Errorf("a batch does not see the %s go up: %x", name, open)
				}
			}
		})
	})
}

// TestBatchIsOvertaken: between the two looks of a batch, each item moves from its alternate line,
// which the batch has yet to read, to its home line. The batch must still find it.
func TestBatchIsOvertaken(t *testing.T) {
	kerneltest.Each(t, func(t *testing.T) {
		tab := layouttest.Table(t, layout.Compact, layout.Params{Quotients: 41, RemainderBits: 7}, 50)
		v, hashes, found := layouttest.View(tab), make([]uint64, 2*kernel.Group), make([]bool, 2*kernel.Group)
		for i := range hashes {
			hashes[i] = 0x9e3779b97f4a7c15 * uint64(i)
			home := tab.Split(hashes[i])
			away := tab.Alternate(home)
			layouttest.Change(tab, v.Region, home.Line, func(l *layout.Line) { layouttest.SetOverflow(tab, l, home) })
			layouttest.Change(tab, v.Region, away.Line, func(l *layout.Line) { tab.Place(l, away, nil) })
		}
		layout.ContainsHashes(overtaken{tab, func() {
			for _, h := range hashes {
				home := tab.Split(h)
				for _, it := range []layout.Item{home, tab.Alternate(home)} {
					layouttest.Change(tab, v.Region, it.Line, func(l *layout.Line) {
						if it == home {
							tab.Place(l, it, nil)
						} else {
							tab.Remove(l, it, nil)
						}
					})
					v.Runtime[blockCounter(it.Line)] += 2
				}
			}
		}}, v, hashes, found)
		if slices.Contains(found, false) {
			t.Errorf("an item that came home is missed: %v", found)
		}
	})
}

// TestDirectEqualsLooks: a Direct answers lookups that a look in Go settles, of hashes and of keys of
// 9 to 16 bytes, and leaves all other lookups to Go.
func TestDirectEqualsLooks(t *testing.T) {
	kerneltest.Each(t, func(t *testing.T) {
		// With 300 lines, some share a counter.
		layouttest.Each(t, 300, func(t *testing.T, tab layout.Table) {
			rng := rand.New(rand.NewPCG(13, 14))
			hashes := make([]uint64, 500)
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			v, h := randomView(rng, tab, hashes), layout.NewHasher(rng.Uint64())
			randomKey := func(n int) []byte {
				key := make([]byte, n)
				for i := range key {
					key[i] = byte(rng.Uint32())
				}
				return key
			}
			keys := make([][]byte, 300) // present; every other one is in its alternate line
			for i := range keys {
				keys[i] = randomKey(9 + rng.IntN(8))
				at := tab.Split(h.Hash(keys[i]))
				var l layout.Line
				if i%2 == 0 {
					layout.Load(tab, v.Region, at.Line, &l)
					layouttest.SetOverflow(tab, &l, at)
					layout.Store(tab, v.Region, at.Line, &l)
					at = tab.Alternate(at)
				}
				layout.Load(tab, v.Region, at.Line, &l)
				for !tab.Place(&l, at, nil) { // a guest needs more room than one item at home frees
					victims := tab.Victims(nil, &l, at)
					if len(victims) == 0 {
						victims = tab.Victims(nil, &l, layout.Item{Line: at.Line})
					}
					tab.Remove(&l, victims[0], nil)
				}
				layout.Store(tab, v.Region, at.Line, &l)
			}
			var there []layout.Item
			for line := range tab.Lines() {
				var l layout.Line
				layout.Load(tab, v.Region, line, &l)
				items := tab.Victims(nil, &l, layout.Item{Line: line})
				there = append(there, items...)
			}
			var asked []uint64 // hashes that the Direct left to Go
			d := layout.NewDirect(tab, v, &h, func(h uint64) bool { asked = append(asked, h); return h%2 == 0 })
			has, wide := singleKernel(tab)
			type outcome struct {
				name        string
				found, open bool
			}
			seen := map[outcome]int{}
			tries := 60_000
			if !has {
				tries = 1000 // Go answers all
			}
			for i := range tries {
				quiet := i < tries/2 // no counter is odd, so only an overflow bit leaves a lookup open
				if i%1000 == 0 && !quiet {
					v.Runtime[layout.RuntimeEpoch] = 2*rng.Uint64N(3) + uint64(rng.IntN(20)/19)
					layout.Counters(func(word uint64) { v.Runtime[word] = 2*rng.Uint64N(5) + uint64(rng.IntN(10)/9) })
				}
				key := randomKey(rng.IntN(20))
				if i%8 == 0 {
					key = keys[rng.IntN(len(keys))]
				}
				check := func(name string, answers bool, hash uint64, contains func() bool) {
					found, open := tab.FirstLook(v, hash)
					if wide {
						found, open = firstLookInGo(tab, v, hash) // it handles runs of any length
						open = open || v.Runtime[layout.RuntimeEpoch]%2 != 0 || v.Runtime[blockCounter(tab.Split(hash).Line)]%2 != 0
					}
					if quiet && answers {
						seen[outcome{name, found && !open, open}]++
					}
					want, ask := hash%2 == 0, []uint64{hash}
					if answers && !open {
						want, ask = found, nil
					}
					asked = nil
					if got := contains(); got != want || !slices.Equal(asked, ask) {
						t.Fatalf("%s %x: %t, asked for %x; want %t, %x", name, key, got, asked, want, ask)
					}
				}
				hash := h.Hash(key)
				check("Contains", has && 9 <= len(key) && len(key) <= 16, hash, func() bool { return d.Contains(key) })
				if i%8 == 0 {
					it := there[rng.IntN(len(there))]
					if hash = tab.Hash(it); i%16 == 0 {
						hash = tab.Hash(tab.Alternate(it)) // a hash with it in the second line
					}
				}
				check("ContainsHash", has, hash, func() bool { return d.ContainsHash(hash) })
			}
			for _, name := range []string{"Contains", "ContainsHash"} {
				want := []outcome{{name, false, false}, {name, true, false}, {name, false, true}}
				for _, o := range want {
					if has && seen[o] == 0 {
						t.Errorf("%+v is never seen: %v", o, seen)
					}
				}
			}
		})
	})
}

func firstLookInGo(tab layout.Table, v *layout.View, h uint64) (found, open bool) {
	return layout.FirstLook(tab, v, h)
}

// singleKernel reports whether a table has a kernel for single keys, and whether this kernel is a wide
// one, which leaves a lookup to Go if a counter is odd.
func singleKernel(tab layout.Table) (has, wide bool) {
	// The counts must fit in two words; for a wide kernel, the slots must also fit in one register.
	p := tab.Params()
	if tab.Kind() != layout.Compact || !kernel.InUse().Single() || kernel.PDEPIsSlow || p.RemainderBits == 4 && p.Quotients > 38 {
		return false, false
	}
	return true, kernel.InUse() == kernel.AVX512 && kernel.HasVBMI && layout.SlotsPerLine(layout.Compact, p) <= 64
}

// blockCounter is the removal counter of a block of the region.
func blockCounter(block uint64) uint64 {
	return layout.CounterOf(layout.WordRegion + block*layout.BlockWords)
}

// randomView returns a view with random content, which need not come from a filter. In Compact, the
// lines are valid.
func randomView(rng *rand.Rand, tab layout.Table, hashes []uint64) *layout.View {
	v := layouttest.View(tab)
	if tab.Kind() == layout.Compact {
		layouttest.FillRandom(rng, tab, v, hashes)
		return v
	}
	for i := range v.Region {
		v.Region[i] = rng.Uint64() & rng.Uint64()
	}
	return v
}

// randomCounters sets the epoch and the counters of a view. In half of the calls, some may be odd.
func randomCounters(rng *rand.Rand, v *layout.View) (odd bool) {
	some := rng.IntN(2)
	v.Runtime[layout.RuntimeEpoch] = uint64(some * rng.IntN(20) / 19)
	odd = v.Runtime[layout.RuntimeEpoch] != 0
	layout.Counters(func(word uint64) {
		v.Runtime[word] = 2*rng.Uint64N(5) + uint64(some*rng.IntN(50)/49)
		odd = odd || v.Runtime[word]%2 != 0
	})
	return odd
}

func ones(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestBatchEqualsSingle tries batches of every length up to a few groups and of some lengths around
// the size of a block, at any start in memory, also while a few removal counters or the epoch are odd.
func TestBatchEqualsSingle(t *testing.T) {
	const block, ahead = 512, 64 // as in package layout
	lengths := []int{block - 1, block, block + 1, 2*block + kernel.Group + 1}
	for n := range 3*ahead + 2 {
		lengths = append(lengths, n)
	}
	kerneltest.Each(t, func(t *testing.T) {
		layouttest.Each(t, 50, func(t *testing.T, tab layout.Table) {
			if layout.KernelOf(tab) != kernel.InUse().String() {
				return // its own kernel tests it
			}
			rng := rand.New(rand.NewPCG(9, 10))
			some := make([]uint64, 200) // some are in the stash, too, and a few overflow bits are set
			for i := range some {
				some[i] = rng.Uint64()
			}
			v := randomView(rng, tab, some)
			for _, h := range some {
				layout.StashAdd(v.Stash, tab.Class(tab.Split(h)), layouttest.Into(v.Stash))
			}
			for _, n := range lengths {
				randomCounters(rng, v)
				from := rng.IntN(9)
				hashes, found := make([]uint64, from+n)[from:], make([]bool, from+n+1)[from:]
				for i := range hashes {
					hashes[i] = rng.Uint64()
				}
				found[n] = true
				layout.ContainsHashes(tab, v, hashes, found)
				for i, h := range hashes {
					if found[i] != layout.Lookup(tab, v.At, h) {
						t.Fatalf("hash %d of %d: %t", i, n, found[i])
					}
					if found[i] != layout.Contains(tab, v, h) {
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

// TestLookupsAllocateNothing: lookups do not allocate, even if the first look leaves them open or
// they end in the stash.
func TestLookupsAllocateNothing(t *testing.T) {
	layouttest.Each(t, 50, func(t *testing.T, tab layout.Table) {
		rng := rand.New(rand.NewPCG(23, 24))
		v := layouttest.View(tab)
		*v = layout.ViewOf(v.Region, v.Stash, v.Runtime)
		layouttest.FillRandom(rng, tab, v, nil)
		for i := 1; i < len(v.Stash); i += 2 {
			v.Stash[i] = 1 // an entry that no lookup is about: fingerprint 0, in line 0
		}
		hashes, found := make([]uint64, 300), make([]bool, 300)
		for i := range hashes {
			hashes[i] = rng.Uint64()
		}
		at := v.At
		for name, ask := range map[string]func(){
			"Lookup": func() {
				for _, h := range hashes {
					layout.Lookup(tab, at, h)
				}
			},
			"Contains": func() {
				for _, h := range hashes {
					layout.Contains(tab, v, h)
				}
			},
			"ContainsHashes": func() { layout.ContainsHashes(tab, v, hashes, found) },
		} {
			if n := testing.AllocsPerRun(20, ask); n != 0 {
				t.Errorf("%s allocates %v times for %d hashes", name, n, len(hashes))
			}
		}
	})
}
