package mmapfilter

import (
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
	"golang.org/x/sys/unix"
)

// TestLookupsStayInTheRegion: whatever the lines contain, lookups read no byte before or after the
// region, and none after their hashes.
func TestLookupsStayInTheRegion(t *testing.T) {
	const lines = 64
	page := os.Getpagesize()
	data, err := unix.Mmap(-1, 0, 5*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(t, err)
	defer unix.Munmap(data)
	for _, i := range []int{1, 3} {
		must(t, unix.Mprotect(data[i*page:(i+1)*page], unix.PROT_READ|unix.PROT_WRITE))
	}
	view := layout.View{
		Region:  recovery.Words(data)[2*page/8-lines*layout.BlockWords : 2*page/8],
		Runtime: make([]uint64, layout.RuntimeWords),
		Stash:   make([]uint64, layout.StashWords),
	}
	rng := seeded(t, 3)
	asked, found := recovery.Words(data)[3*page/8:4*page/8], make([]bool, page/8)
	for _, kernel := range kernel.Names() {
		withKernel(t, kernel)
		for _, p := range layouttest.Params(layout.Compact) {
			table, hasher := layouttest.Table(t, layout.Compact, p, lines), layout.NewHasher(8)
			direct := layout.NewDirect(table, &view, &hasher, func(uint64) bool { return false })
			for range 10 {
				for i := range view.Region {
					view.Region[i] = [...]uint64{0, ^uint64(0), rng.Uint64(), rng.Uint64() | rng.Uint64() | rng.Uint64(), rng.Uint64() & rng.Uint64()}[rng.IntN(5)]
				}
				for i := range asked {
					asked[i] = rng.Uint64()
				}
				if fault := osfile.Catch(data, func() {
					for _, n := range []int{8, 24, 40, 72, len(asked)} {
						layout.ContainsHashes(table, &view, asked[len(asked)-n:], found)
					}
					for _, h := range asked[:200] {
						layout.Contains(table, &view, h)
						direct.ContainsHash(h)
						layout.Lookup(table, view.At, h)
					}
				}); fault != nil {
					t.Fatalf("%s, %v: %v", kernel, p, fault)
				}
			}
		}
	}
}

// TestLooksBetweenLoads covers R2: each lookup loads epoch and counters again. While a lookup waits for
// a page, the item that it looks for changes its place in one of three ways. It is inserted into its
// home line when the lookup has read the counts of this line, but not the rest. Or it comes home when an
// overflow bit has led the lookup on, and the lookup has not yet read the alternate line or its counter.
// Or it moves to another slot of its home line, because an item before it is deleted, between the loads
// of the counts and of a remainder. A lookup that does not load the counters again misses such an item.
func TestLooksBetweenLoads(t *testing.T) {
	defer forWaiting()()
	for _, s := range lookShapes {
		t.Run(s.String(), func(t *testing.T) { testLooksBetweenLoads(t, s) })
	}
}

func testLooksBetweenLoads(t *testing.T, s shape) {
	const theSlots, withoutCounters = "the counts, and the item has a slot", "Lookup without counters"
	const lower = 30 // number of items before this item
	g := s.Geometry(t, 200)
	table, hasher := layout.NewTable(g), layout.NewHasher(8)
	perPage := uint64(os.Getpagesize() / 8)
	var key []byte
	var home, second layout.Item // in different pages
	for i := range 1000 {
		key = shortKey(i)
		home = table.Split(hasher.Hash(key))
		if second = table.Alternate(home); home.Fp >= lower && home.Fp%(1<<s.RemainderBits) != 0 && // a free slot has remainder 0
			second.Line > home.Line+2*perPage/layout.BlockWords && (second.Line-home.Line)%(perPage/layout.BlockWords) != 0 {
			break
		}
	}
	var at layout.Line // the home line, with an overflow bit
	table.(layout.Hosts).SetOverflow(&at, home, nil)
	counterOf := func(line uint64) uint64 { return layout.CounterOf(layout.WordRegion + line*layout.BlockWords) }
	// The runtime page is placed so that the counter of the second line is the first word of page
	// 1, and the region so that the second half of the home line starts a page.
	runtimeFrom := perPage - counterOf(second.Line)
	regionFrom := 2*perPage + (perPage-(home.Line*layout.BlockWords+layout.BlockWords/2)%perPage)%perPage
	homeFrom, secondFrom := regionFrom+home.Line*layout.BlockWords, regionFrom+second.Line*layout.BlockWords
	pages := (regionFrom+g.Lines*layout.BlockWords)/perPage + 1

	type way struct {
		kernel, lookup string
		epoch          bool // a recovery moves the item
	}
	var ways []way
	for _, kernel := range kernel.Names() {
		for _, lookup := range append(slices.Collect(maps.Keys(waysToLook)), withoutCounters) {
			ways = append(ways, way{kernel, lookup, false}, way{kernel, lookup, true})
		}
	}
	for name, c := range map[string]struct {
		page uint64 // the page that the lookup waits for
		away bool   // the item is in its second line at first
	}{
		theSlots:                 {(homeFrom + layout.BlockWords/2) / perPage, false},
		"the counts":             {(homeFrom + layout.BlockWords/2) / perPage, false},
		"the home line":          {(runtimeFrom + counterOf(second.Line)) / perPage, true},
		"all but the second one": {secondFrom / perPage, true},
	} {
		if name == theSlots && s != compact7 {
			continue // only here are the slots after the lower items in the second half
		}
		for _, way := range ways {
			if way.lookup == withoutCounters && name != theSlots {
				continue
			}
			withKernel(t, way.kernel)
			m := newLateMemory(t, int(pages))
			words := recovery.Words(m.data)
			now := make([]uint64, len(words)) // the contents of words once their pages are supplied
			there := map[uint64]bool{}
			supply := func(page uint64) {
				copy(recovery.Words(m.args)[perPage:], now[page*perPage:(page+1)*perPage])
				m.supply(t, int(page))
				there[page] = true
			}
			store := func(word, value uint64) {
				if now[word] = value; there[word/perPage] {
					atomic.StoreUint64(&words[word], value)
				}
			}
			put := func(from uint64, l *layout.Line) {
				for i, w := range l {
					store(from+uint64(i), w)
				}
			}
			layout.Counters(func(word uint64) { store(runtimeFrom+word, muchCounted) })
			here, gone := at, layout.Line{}
			if c.away {
				var away layout.Line
				table.Place(&away, second, nil)
				put(homeFrom, &at)
				put(secondFrom, &away)
			} else {
				here = layout.Line{}
			}
			table.Place(&here, home, nil)
			if name == theSlots {
				for fp := range uint32(lower) {
					table.Place(&here, layout.Item{Line: home.Line, Fp: fp}, nil)
				}
				put(homeFrom, &here)
				table.Remove(&here, layout.Item{Line: home.Line}, nil)
			}
			for page := range pages {
				if page != c.page {
					supply(page)
				}
			}
			view := layout.View{
				Region:  words[regionFrom:][:g.Lines*layout.BlockWords],
				Runtime: words[runtimeFrom:][:layout.RuntimeWords],
				Stash:   make([]uint64, layout.StashWords),
			}
			found := make(chan bool, 1)
			go func() {
				if look := waysToLook[way.lookup]; look != nil {
					found <- look(table, &view, &hasher, key)
					return
				}
				found <- layout.Lookup(table, func(word uint64) uint64 {
					if word < layout.WordStash { // of the runtime page
						return 0
					}
					return view.At(word)
				}, hasher.Hash(key))
			}()
			if page := m.touched(t); page != int(c.page) {
				t.Errorf("%+v, which has read %s, waits for page %d, not %d", way, name, page, c.page)
			}
			put(homeFrom, &here)
			if way.epoch {
				store(runtimeFrom+layout.RuntimeEpoch, 2)
			} else {
				store(runtimeFrom+counterOf(home.Line), muchCounted+2)
			}
			if c.away {
				put(secondFrom, &gone)
				if !way.epoch {
					store(runtimeFrom+counterOf(second.Line), muchCounted+2)
				}
			}
			supply(c.page)
			if <-found == (way.lookup == withoutCounters) {
				t.Errorf("%+v had read %s when the item moved, and misses it (or finds it without counters)", way, name)
			}
		}
	}
}
