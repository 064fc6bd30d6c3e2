package layout

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// eachKernel runs f with each kernel that there is for this architecture.
func eachKernel(t *testing.T, f func(t *testing.T)) {
	names := map[string][]string{"amd64": {"avx512", "avx2"}, "arm64": {"neon"}}[runtime.GOARCH]
	names = append(names, "go")
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

// randomView is of no filter that anything built: any content will do, but in a line of
// Compact, whose counts have to be some. There the lines are empty, full or between, with
// the items of the hashes that are given and others, and with some overflow bits.
func randomView(rng *rand.Rand, tab Table, hashes []uint64) *View {
	v := &View{Region: make([]uint64, tab.Lines()*BlockWords), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
	if tab.Kind() != Compact {
		for i := range v.Region {
			v.Region[i] = rng.Uint64() & rng.Uint64()
		}
		return v
	}
	var l Line
	change := func(it Item, do func(it Item)) {
		tab.Load(v.Region, it.Line, &l)
		do(it)
		tab.Store(v.Region, it.Line, &l)
	}
	for line := range tab.Lines() {
		for range tab.SlotsPerLine() * rng.IntN(6) / 5 {
			it := tab.Split(rng.Uint64())
			if it.Line = line; rng.IntN(4) == 0 {
				it.Fp = 1 // a long run
			}
			change(it, func(it Item) { tab.Place(&l, it, nil) })
		}
	}
	for _, h := range hashes {
		change(tab.Split(h), func(it Item) { tab.Place(&l, it, nil) })
		if h = rng.Uint64(); rng.IntN(4) == 0 {
			change(tab.Split(h), func(it Item) { tab.SetOverflow(&l, it, nil) })
		}
	}
	return v
}

// TestFirstLookEqualsGo: the first look of a kernel settles what that in Go settles,
// and leaves open what that leaves open; but in Compact it may leave open what a long run
// of remainders would settle.
func TestFirstLookEqualsGo(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		eachTable(t, 50, func(t *testing.T, tab Table) {
			if tab.Kernel() != Kernel() {
				return
			}
			rng := rand.New(rand.NewPCG(11, 12))
			hashes := make([]uint64, 3000)
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			var v *View
			var seen [2][2]int
			long := 0
			for round := range 30 {
				if round%3 == 0 {
					v = randomView(rng, tab, hashes[:100*round])
				}
				v.Runtime[RuntimeEpoch] = uint64(rng.IntN(20) / 19)
				Counters(func(word uint64) { v.Runtime[word] = 2*rng.Uint64N(5) + uint64(rng.IntN(50)/49) })
				found, open := make([]bool, len(hashes)), make([]uint8, len(hashes)/openBits)
				FirstLooks(tab, v, hashes, found, open)
				for i, h := range hashes {
					f, o := firstLookInGo(tab, v, h)
					alone, openAlone := tab.FirstLook(v, h)
					isOpen := open[i/openBits]>>(i%openBits)&1 != 0
					if tab.Kind() == Compact && !o && (openAlone && !alone || isOpen && !found[i]) {
						long++
					} else if alone != f || openAlone != o || found[i] != f || isOpen != o {
						t.Fatalf("%#x: found %t, open %t; in a batch %t, %t; in Go %t, %t", h, alone, openAlone, found[i], isOpen, f, o)
					}
					seen[ones(f)][ones(o)]++
				}
			}
			if tab.Both() {
				return // a bucket alone never says no
			}
			if seen[0][0] == 0 || seen[0][1] == 0 || seen[1][0] == 0 && tab.Params().FingerprintBits < 20 || seen[1][1] != 0 {
				t.Errorf("found and open: %v", seen)
			}
			if all := 30 * len(hashes); long > all/20 {
				t.Errorf("%d of %d are left open for long runs", long, all)
			}
		})
	})
}

// TestFirstLooksLoadCountersAgain: while first looks are under way, the epoch or the removal
// counter of a line goes up all the time, and is never odd. Those in that line are open when
// it has gone up between their loads; those in another line never are. With two processors that
// is seen at once; with one it takes until the system takes the processor away between two
// loads, a tenth of a second or so.
func TestFirstLooksLoadCountersAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	const changed, other = 200, 200 - 128
	eachKernel(t, func(t *testing.T) {
		eachTable(t, 250, func(t *testing.T, tab Table) {
			if tab.Both() || tab.Kernel() != Kernel() {
				return // the first looks of the former answer nothing
			}
			v := &View{Region: make([]uint64, 250*buckets), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
			rng := rand.New(rand.NewPCG(17, 18))
			hashes := make([]uint64, 64)
			for i := range hashes {
				for it := (Item{}); it.Line != []uint64{changed, other}[i%2]; it = tab.Split(hashes[i]) {
					hashes[i] = rng.Uint64()
				}
			}
			for name, word := range map[string]uint64{"counter": blockCounter(changed), "epoch": RuntimeEpoch} {
				var stop atomic.Bool
				var writer sync.WaitGroup
				writer.Add(1)
				go func() {
					defer writer.Done()
					for !stop.Load() {
						atomic.AddUint64(&v.Runtime[word], 2)
					}
				}()
				seen, found, open := false, make([]bool, len(hashes)), make([]uint8, len(hashes)/openBits)
				for round := 0; round < 3_000_000 && !seen; round++ {
					clear(open)
					FirstLooks(tab, v, hashes, found, open)
					EachOpen(open, func(i int) {
						if seen = true; word != RuntimeEpoch && i%2 != 0 {
							t.Errorf("%s: line %d is open", name, other)
						}
					})
				}
				stop.Store(true)
				writer.Wait()
				if !seen {
					t.Errorf("that the %s goes up is never seen", name)
				}
			}
		})
	})
}

// TestDirectEqualsLooks: a Direct answers what a look in Go settles, for keys of 9 to 16 bytes,
// and leaves the others alone. Where it has a second look, and the first one leads on, it answers
// what that one settles: by the lines, and a group of the stash without entries.
func TestDirectEqualsLooks(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		// So many lines that some share a counter.
		eachTable(t, 300, func(t *testing.T, tab Table) {
			rng := rand.New(rand.NewPCG(13, 14))
			hashes := make([]uint64, 500)
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			v, h := randomView(rng, tab, hashes), NewHasher(rng.Uint64())
			for range stashGroups / 3 { // in use is any entry of a group
				v.Stash[rng.Uint64N(stashGroups)*groupWords+2*rng.Uint64N(groupWords/2)+1] = 1
			}
			v.Stash[rng.Uint64N(stashGroups)*groupWords] |= groupMark
			randomKey := func(n int) []byte {
				key := make([]byte, n)
				for i := range key {
					key[i] = byte(rng.Uint32())
				}
				return key
			}
			keys := make([][]byte, 300) // that are there, every other one in its second line
			for i := range keys {
				keys[i] = randomKey(9 + rng.IntN(8))
				at := tab.Split(h.Hash(keys[i]))
				var l Line
				if i%2 == 0 {
					tab.Load(v.Region, at.Line, &l)
					tab.SetOverflow(&l, at, nil)
					tab.Store(v.Region, at.Line, &l)
					at = tab.Alternate(at)
				}
				tab.Load(v.Region, at.Line, &l)
				if !tab.Place(&l, at, nil) {
					victims, _ := tab.Victims(nil, &l, at, true)
					tab.Remove(&l, victims[0], nil)
					tab.Place(&l, at, nil)
				}
				tab.Store(v.Region, at.Line, &l)
			}
			var there []Item
			for line := range tab.Lines() {
				var l Line
				tab.Load(v.Region, line, &l)
				items, _ := tab.Victims(nil, &l, Item{Line: line}, true)
				there = append(there, items...)
			}
			var asked []uint64 // what is left to Go
			d := NewDirect(tab, v, &h, func(h uint64) bool { asked = append(asked, h); return h%2 == 0 })
			has := tab.Kind() == Blocked
			if c, ok := tab.(*compact); ok {
				has = c.countWords == 2 && !pdepIsSlow
			}
			has = has && kernel(inUse.Load()).single()
			type outcome struct {
				name                string
				beyond, found, open bool
			}
			seen := map[outcome]int{}
			tries := 60_000
			if !has {
				tries = 1000 // all are asked for in Go
			}
			for i := range tries {
				quiet := i < tries/2 // open is then what has overflowed
				if i%1000 == 0 && !quiet {
					v.Runtime[RuntimeEpoch] = 2*rng.Uint64N(3) + uint64(rng.IntN(20)/19)
					Counters(func(word uint64) { v.Runtime[word] = 2*rng.Uint64N(5) + uint64(rng.IntN(10)/9) })
				}
				key := randomKey(rng.IntN(20))
				if i%8 == 0 {
					key = keys[rng.IntN(len(keys))]
				}
				check := func(name string, answers bool, hash uint64, contains func() bool) {
					found, open := tab.FirstLook(v, hash)
					var beyond bool
					if d.look <= lookTwice {
						found, open = firstLookInGo(tab, v, hash) // no run is too long
						found, open, beyond = looksOf(tab, v, hash, found, open)
					}
					if quiet && answers {
						seen[outcome{name, beyond, found && !open, open}]++
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
						hash = tab.Hash(tab.Alternate(it)) // it is in the second line of this one
					}
				}
				check("ContainsHash", has, hash, func() bool { return d.ContainsHash(hash) })
			}
			for _, name := range []string{"Contains", "ContainsHash"} {
				want := []outcome{{name, false, false, false}, {name, false, true, false}}
				if d.look <= lookTwice {
					want = append(want, outcome{name, true, true, false}, outcome{name, true, false, false}, outcome{name, true, false, true})
				} else {
					want = append(want, outcome{name, false, false, true})
				}
				for _, o := range want {
					if has && seen[o] == 0 {
						t.Errorf("%+v is never seen: %v", o, seen)
					}
				}
			}
		})
	})
}

// looksOf is what a Direct with a second look settles of a hash, of which a first look says found
// and open. Nothing moves meanwhile.
func looksOf(tab Table, v *View, h uint64, found, open bool) (foundThen, openThen, beyond bool) {
	odd := func(word uint64) bool { return v.Runtime[word]%2 != 0 }
	it := tab.Split(h)
	var l Line
	tab.Load(v.Region, it.Line, &l)
	other := tab.Alternate(it)
	switch {
	case odd(RuntimeEpoch) || odd(blockCounter(it.Line)):
		return found, true, false
	case !tab.Overflowed(&l, it):
		return found, open, false
	case odd(RuntimeStashCounter) || odd(blockCounter(other.Line)):
		return found, true, true
	case found:
		return true, false, true
	}
	tab.Load(v.Region, other.Line, &l)
	found = tab.Copies(&l, other) > 0
	return found, !found && mayStash(v.Stash, tab.Class(it)), true
}

// TestVectorsAreLines: what a kernel loads at once is in one line of the cache.
func TestVectorsAreLines(t *testing.T) {
	var keep []any
	for range 1000 {
		d, b := new(Direct), new(blocked)
		keep = append(keep, d, b)
		for v, names := range map[any][]string{d: {"ones2", "lanes2", "highs2", "mix", "slotVectors"}, b: {"ones2", "lanes2", "highs2"}} {
			for _, name := range names {
				of := reflect.ValueOf(v)
				field, _ := of.Type().Elem().FieldByName(name)
				size := min(field.Type.Size(), LineBytes)
				if at := of.Pointer() + field.Offset; at/LineBytes != (at+size-1)/LineBytes {
					t.Fatalf("%s of %T at %#x", name, v, at)
				}
			}
		}
	}
	runtime.KeepAlive(keep)
}

// TestBySlots: the slots of all lines get into bytes of a register, but for one of r=16.
func TestBySlots(t *testing.T) {
	for _, p := range LegalParams(Compact) {
		g, err := NewGeometry(Compact, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		c := NewTable(g).(*compact)
		slotted, _, ok := c.bySlots()
		if want := uint64(bits.OnesCount64(slotted.inUse)) == c.b; ok != want || c.countWords == 2 && ok != (c.r != 16) {
			t.Errorf("r=%d: %t, with %d of %d slots", c.r, ok, bits.OnesCount64(slotted.inUse), c.b)
		}
	}
}

// TestLongestRun: lines where all items have one quotient, and the last one another remainder.
func TestLongestRun(t *testing.T) {
	eachQuotient(t, func(t *testing.T, c *compact, quotient, _ uint32, contains func(l *Line, fp uint32) bool) {
		fp := quotient<<c.r | 1
		for n := range c.SlotsPerLine() {
			var l Line
			for range n {
				c.Place(&l, Item{Fp: fp - 1}, nil)
			}
			c.Place(&l, Item{Fp: fp}, nil)
			for other, want := range map[uint32]bool{fp: true, fp - 1: n > 0, fp + 1: false, fp ^ 1<<c.r: false} {
				if got := contains(&l, other); got != want {
					t.Fatalf("%#x %d times, and %#x; %#x: %t", fp-1, n, fp, other, got)
				}
			}
		}
	})
}

// TestOneQuotient: lines where all items have one quotient and the highest remainder. No other
// quotient has that one, nor the lowest, which free slots seem to have.
func TestOneQuotient(t *testing.T) {
	eachQuotient(t, func(t *testing.T, c *compact, quotient, step uint32, contains func(l *Line, fp uint32) bool) {
		var l Line
		for n := range c.SlotsPerLine() {
			c.Place(&l, Item{Fp: quotient<<c.r | uint32(c.values)}, nil)
			for other := uint32(0); other < quotients; other += step {
				for _, fp := range []uint32{other << c.r, other<<c.r | uint32(c.values)} {
					want := other == quotient && fp != other<<c.r
					if got := contains(&l, fp); got != want {
						t.Fatalf("%d of quotient %d; %#x: %t", n+1, quotient, fp, got)
					}
				}
			}
		}
	})
}

// eachQuotient runs a test for all kernels, tables of Compact and quotients; or for those a step
// apart, where the time is short. contains looks a fingerprint up in a line, in both ways that a
// single lookup may take.
func eachQuotient(t *testing.T, test func(t *testing.T, c *compact, quotient, step uint32, contains func(l *Line, fp uint32) bool)) {
	eachKernel(t, func(t *testing.T) {
		eachTable(t, 50, func(t *testing.T, tab Table) {
			c, ok := tab.(*compact)
			if !ok {
				return
			}
			const line = 7
			v, h := randomView(rand.New(rand.NewPCG(15, 16)), tab, nil), NewHasher(1)
			d := NewDirect(tab, v, &h, func(h uint64) bool { return Contains(tab, v, h) })
			contains := func(l *Line, fp uint32) bool {
				tab.Store(v.Region, line, l)
				hash := tab.Hash(Item{Line: line, Fp: fp})
				found := d.ContainsHash(hash)
				if Contains(tab, v, hash) != found {
					t.Fatalf("%#x: %t, and %t by the table", fp, found, !found)
				}
				return found
			}
			step := uint32(1)
			if testing.Short() {
				step = 21
			}
			for quotient := uint32(0); quotient < quotients; quotient += step {
				test(t, c, quotient, step, contains)
			}
		})
	})
}

func firstLookInGo(tab Table, v *View, h uint64) (found, open bool) {
	before := inUse.Swap(uint32(pureGo))
	defer inUse.Store(before)
	return tab.FirstLook(v, h)
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
			v := randomView(rng, tab, nil)
			for _, n := range lengths {
				v.Runtime[RuntimeEpoch] = uint64(rng.IntN(20) / 19)
				Counters(func(word uint64) { v.Runtime[word] = 2*rng.Uint64N(5) + uint64(rng.IntN(50)/49) })
				from := rng.IntN(9)
				hashes, found := make([]uint64, from+n)[from:], make([]bool, from+n+1)[from:]
				for i := range hashes {
					hashes[i] = rng.Uint64()
				}
				found[n] = true
				ContainsHashes(tab, v, hashes, found)
				for i, h := range hashes {
					if found[i] != Lookup(tab, v.At, h) {
						t.Fatalf("hash %d of %d: %t", i, n, found[i])
					}
					if found[i] != Contains(tab, v, h) {
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
	for _, c := range []struct {
		kind   Kind
		params Params
		fill   func(rng *rand.Rand, tab Table, v *View)
	}{
		{Blocked, Params{12, 5}, fillBlocked},
		{Compact, Params{14, 48}, fillCompact},
	} {
		large := uint64(1 << 24)
		if testing.Short() {
			large = 1 << 16
		}
		for _, lines := range []uint64{1 << 12, large} {
			g, err := NewGeometry(c.kind, c.params, lines)
			if err != nil {
				b.Fatal(err)
			}
			tab := NewTable(g)
			rng := rand.New(rand.NewPCG(1, lines))
			v := &View{Region: make([]uint64, lines*buckets), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
			c.fill(rng, tab, v)
			for _, batch := range []int{1, 64, 4096} {
				b.Run(fmt.Sprintf("%s/KiB=%d/batch=%d", c.kind, g.RegionBytes>>10, batch), func(b *testing.B) {
					benchmarkKernels(b, rng, tab, v, batch)
				})
			}
		}
	}
}

// fillBlocked: a slot in twenty is free, and an overflow bit in eight set.
func fillBlocked(rng *rand.Rand, tab Table, v *View) {
	t := tab.(*blocked)
	for i := range v.Region {
		for s := range t.b {
			if rng.IntN(20) > 0 {
				v.Region[i] |= (1 + rng.Uint64N(t.values)) << (s * t.f)
			}
		}
		v.Region[i] |= (rng.Uint64() & rng.Uint64() & rng.Uint64()) &^ (1<<overflowLow - 1)
	}
}

// fillCompact: a slot in fifty is free, and of the overflow bits so many are set that
// one lookup in eleven goes on. There are a thousand different lines.
func fillCompact(rng *rand.Rand, tab Table, v *View) {
	t := tab.(*compact)
	var images [1000]Line
	for i := range images {
		l := &images[i]
		for n := t.items(l); n < t.b-uint64(ones(rng.IntN(2) > 0)*(1+ones(rng.IntN(2) > 0))); n = t.items(l) {
			t.Place(l, Item{Fp: uint32(rng.Uint64N(1 << t.f))}, nil)
		}
		for o := range t.v {
			if rng.Float64() < 0.3 {
				l[lastWord] |= 1 << (64 - t.v + o)
			}
		}
	}
	for i := range t.lines {
		*lineAt(v.Region, i) = images[rng.IntN(len(images))]
	}
}

// benchmarkKernels asks in batches; in batches of one, by Contains.
func benchmarkKernels(b *testing.B, rng *rand.Rand, tab Table, v *View, batch int) {
	const rounds, hashes = 15, 1 << 18
	h, found := make([]uint64, hashes), make([]bool, hashes)
	type way struct {
		name string
		ask  func(h []uint64, found []bool)
		took []time.Duration
	}
	ways := []*way{{name: "limit", ask: func(h []uint64, found []bool) { limit(tab, v, h) }}}
	for _, name := range Kernels() {
		if tab.Kind() == Compact && name == "avx2" {
			continue // the same as avx512
		}
		ways = append(ways, &way{name: name, ask: func(h []uint64, found []bool) {
			UseKernel(name)
			if batch == 1 {
				for i, h := range h {
					found[i] = Contains(tab, v, h)
				}
				return
			}
			for ; len(h) > 0; h, found = h[batch:], found[batch:] {
				ContainsHashes(tab, v, h[:batch], found[:batch])
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
}

var sum uint64

func limit(tab Table, v *View, hashes []uint64) {
	lines := tab.Lines()
	at := func(h uint64) *uint64 {
		line, _ := SplitHash(h, lines)
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
