package crashsim

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func testVolume(t *testing.T, sectorBytes int) *Volume {
	t.Helper()
	g, err := layout.NewGeometry(layout.Compact, layout.Params{Quotients: 41, RemainderBits: 7}, 1)
	must(t, err)
	return NewVolume(g, 1, sectorBytes, false, nil)
}

// all is a power loss that loses nothing. With none, all changes since the last sync are lost.
var (
	all  = Loss{Keep: func(n uint32) uint32 { return n }, Names: func(n int) int { return n }}
	none = Loss{Keep: func(uint32) uint32 { return 0 }, Names: func(int) int { return 0 }}
)

// after returns a word of the filter file after a power loss.
func after(v *Volume, loss Loss, word uint64) uint64 {
	child := new(Volume)
	child.lose(v, loss, rand.New(rand.NewPCG(1, 1)))
	return child.filter.cache.words[word]
}

func TestStoreWithoutSyncMayBeLost(t *testing.T) {
	const word = layout.WordRegion
	for _, size := range sectorSizes {
		v := testVolume(t, size)
		f := v.Filter()
		for i := range uint64(3) {
			f.Store(word, i+1)
		}
		for i := range uint64(4) {
			keep := none
			keep.Keep = func(n uint32) uint32 {
				if n != 3 {
					t.Fatalf("%d versions", n)
				}
				return uint32(i)
			}
			if got := after(v, keep, word); got != i {
				t.Errorf("sectors of %d bytes: version %d is %d", size, i, got)
			}
		}
		must(t, f.Sync())
		if got := after(v, none, word); got != 3 {
			t.Errorf("sectors of %d bytes: %d after a sync", size, got)
		}
		f.Store(word, 9)
		child := new(Volume)
		child.kill(v)
		if got := child.Filter().Words()[word]; got != 9 {
			t.Errorf("sectors of %d bytes: %d after a kill", size, got)
		}
		if old, now := after(child, none, word), after(child, all, word); old != 3 || now != 9 {
			t.Errorf("sectors of %d bytes: %d to %d after a kill and a power loss", size, old, now)
		}
	}
}

// TestDroppedPages: a page that a failed sync has dropped falls back to what the disk has, but not if a
// sector of the page is dirty, and not if the process was killed before it knew of the failure.
func TestDroppedPages(t *testing.T) {
	const word, same, other = layout.WordRegion, layout.WordRegion + 64, layout.WordStash // same is on the page of word
	for _, size := range sectorSizes[:3] {
		v := testVolume(t, size)
		f := v.Filter()
		for v.filter.isLost[word>>v.shift] == notLost { // until the sync drops the sector, not another one
			f.Store(word, f.Words()[word]+1)
			v.FailAt = v.syncs + 1
			if f.Sync() == nil {
				t.Fatal("the sync does not fail")
			}
		}
		lost, killed := f.Words()[word], new(Volume)
		killed.kill(v)
		falls := func(v *Volume) bool {
			for range 200 {
				v.event(SyncBegins)
			}
			return v.filter.cache.words[word] != lost
		}
		if falls(killed) {
			t.Errorf("sectors of %d bytes: a page falls back although nobody knew of the failure", size)
		}
		f.Store(same, 1)
		f.Store(other, 1)
		if falls(v) {
			t.Errorf("sectors of %d bytes: a page with a dirty sector falls back", size)
		}
		must(t, v.Filter().(recovery.RangeSyncer).SyncRange(same, 1))
		if !falls(v) || f.Words()[word] != lost-1 || v.hasLost() {
			t.Errorf("sectors of %d bytes: the page has %d, the disk %d", size, f.Words()[word], lost-1)
		}
	}
}

// TestSectors: words of one sector reach the disk in the order of their stores; words of different
// sectors may reach it in any order.
func TestSectors(t *testing.T) {
	const a, b = layout.WordRegion, layout.WordRegion + 8 // 64 bytes apart
	// only keeps the given number of versions of one dirty sector, and none of any other. Sectors are
	// numbered in the order in which they became dirty.
	only := func(sector int, versions uint32) Loss {
		i := -1
		return Loss{Names: none.Names, Keep: func(uint32) uint32 {
			if i++; i == sector {
				return versions
			}
			return 0
		}}
	}
	for _, test := range []struct {
		size         int
		sector       int
		versions     uint32
		wantA, wantB uint64
	}{
		{64, 0, 1, 0, 7}, {64, 1, 1, 8, 0},
		{512, 0, 1, 0, 7}, {512, 0, 2, 8, 7},
	} {
		v := testVolume(t, test.size)
		v.Filter().Store(b, 7)
		v.Filter().Store(a, 8)
		gotA, gotB := after(v, only(test.sector, test.versions), a), after(v, only(test.sector, test.versions), b)
		if gotA != test.wantA || gotB != test.wantB {
			t.Errorf("%+v: %d and %d", test, gotA, gotB)
		}
	}
}

// failing returns a volume where a failed sync has lost a word: the cache has 2, and the disk has 1.
func failing(t *testing.T, word uint64) *Volume {
	t.Helper()
	for seed := uint64(0); ; seed++ {
		v := testVolume(t, 64)
		f := v.Filter()
		f.Store(word, 1)
		must(t, f.Sync())
		v.reseed(seed)
		v.FailOdds = 1
		f.Store(word, 2)
		if err := f.Sync(); !errors.Is(err, errSync) {
			t.Fatal(err)
		}
		v.FailOdds = 0
		if v.hasLost() {
			return v
		}
	}
}

func TestFailedSync(t *testing.T) {
	const word = layout.WordRegion
	v := failing(t, word)
	f := v.Filter()
	if got := f.Words()[word]; got != 2 {
		t.Errorf("the cache has %d", got)
	}
	if got := after(v, all, word); got != 1 {
		t.Errorf("the disk has %d", got)
	}
	must(t, f.Sync())
	if got := after(v, all, word); got != 1 {
		t.Errorf("the disk has %d after a second sync, which does not help", got)
	}
	child := new(Volume)
	child.kill(v)
	if now, disk := child.filter.cache.words[word], after(child, all, word); now != 2 || disk != 1 {
		t.Errorf("after a kill the cache has %d, the disk %d", now, disk)
	}
	// A store to another word makes the sector dirty, with its whole content in the cache.
	f.Store(word+1, 0)
	if old, now := after(v, none, word), after(v, all, word); old != 1 || now != 2 {
		t.Errorf("after another store the disk may have %d to %d", old, now)
	}
	must(t, f.Sync())
	if got := after(v, none, word); got != 2 {
		t.Errorf("the disk has %d after another store and a sync", got)
	}
}

// TestFailedSyncDropsHalf: about half of the sectors reach the disk in a sync that fails.
func TestFailedSyncDropsHalf(t *testing.T) {
	v := testVolume(t, 8)
	v.FailOdds = 1
	f := v.Filter()
	const n = 1000
	for i := range uint64(n) {
		f.Store(layout.WordStash+i, 1)
	}
	f.Sync()
	lost := len(v.filter.lostList)
	if lost < n/2-100 || lost > n/2+100 || len(v.filter.dirty) != 0 {
		t.Errorf("%d of %d sectors are lost, %d dirty", lost, n, len(v.filter.dirty))
	}
}

func TestTrash(t *testing.T) {
	v := testVolume(t, 512)
	f := v.Filter()
	head := append([]uint64(nil), f.Words()[:layout.WordRuntime]...)
	f.Store(layout.WordRegion, 1)  // never trashed
	f.Store(layout.WordRuntime, 1) // never trashed
	f.Store(0, head[0])            // unchanged, so never trashed
	loss := none
	loss.Trash = true
	rng := rand.New(rand.NewPCG(1, 2))
	if new(Volume).lose(v, loss, rng) {
		t.Error("a sector that must not be trashed was")
	}
	f.Store(600, 5)
	child := new(Volume)
	if !child.lose(v, loss, rng) {
		t.Fatal("no sector was trashed")
	}
	changed := 0
	for i, w := range child.filter.cache.words {
		old := uint64(0)
		if i < len(head) {
			old = head[i]
		}
		if w != old {
			if i/64 != 600/64 {
				t.Errorf("word %d has changed", i)
			}
			changed++
		}
	}
	if changed < 60 {
		t.Errorf("%d words have changed", changed)
	}
}

// TestNames: changes to the directory reach the disk in order, and a sync makes them durable.
func TestNames(t *testing.T) {
	v := testVolume(t, 512)
	l, err := v.CreateLog(wal.MinBytes)
	must(t, err)
	l.Store(5, 6)
	must(t, l.Sync())
	// check checks which logs exist after a power loss at the beginning of a sync of the directory, for
	// each number of changes that reached the disk.
	check := func(what string, change func() error, want ...string) {
		v.left[SyncBegins] = 1
		v.hook = func(Event) {
			for n, want := range want {
				child := new(Volume)
				child.lose(v, Loss{Keep: none.Keep, Names: func(int) int { return n }}, nil)
				got := ""
				for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
					if f, err := child.OpenLog(name); err == nil && f.Words()[5] == 6 {
						got += name.String()
					} else if !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if got != want {
					t.Errorf("%s: after %d changes the logs are %q, not %q", what, n, got, want)
				}
			}
		}
		must(t, change())
	}
	check("keep", v.KeepLog, ".stash.new", ".stash")
	check("remove", v.RemoveLogs, ".stash", "")
	check("remove again", v.RemoveLogs, "")
}

// TestHalfMadeLog: a log that was being created when power failed may have no bytes.
func TestHalfMadeLog(t *testing.T) {
	v := testVolume(t, 512)
	var seen [3]bool
	v.hook = func(Event) {
		for n := range len(v.dir.unsynced) + 1 {
			child := new(Volume)
			child.lose(v, Loss{Keep: none.Keep, Names: func(int) int { return n }}, nil)
			_, err := child.OpenLog(recovery.NextLog)
			switch {
			case err == nil:
				seen[0] = true
			case errors.Is(err, fs.ErrNotExist):
				seen[1] = true
			case errors.Is(err, layout.ErrCorrupt):
				seen[2] = true
			}
		}
		v.next = v.events + 1
	}
	v.next = 1
	if _, err := v.CreateLog(wal.MinBytes); err != nil {
		t.Fatal(err)
	}
	if seen != [3]bool{true, true, true} {
		t.Errorf("whole, missing, empty: %v", seen)
	}
}

// TestCopies: copyFrom makes a volume equal to another, whatever the volume held before. Changes to the
// copy do not change the original.
func TestCopies(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range sectorSizes {
		v, w, used := testVolume(t, size), new(Volume), testVolume(t, size)
		for range 200 {
			for _, x := range []*Volume{v, used} {
				for range rng.IntN(20) {
					x.Filter().Store(rng.Uint64N(uint64(len(x.filter.cache.words))), rng.Uint64N(3))
				}
				x.FailOdds = rng.IntN(3)
				if rng.IntN(3) == 0 {
					x.Filter().Sync()
				}
			}
			w.copyFrom(used)
			w.copyFrom(v)
			if w.hash() != v.hash() {
				t.Fatal("the copy differs")
			}
			keep := func(seed uint64) Loss {
				rng := rand.New(rand.NewPCG(seed, 0))
				return Loss{Keep: func(n uint32) uint32 { return rng.Uint32N(n + 1) }, Names: none.Names}
			}
			seed := rng.Uint64()
			a, b := new(Volume), new(Volume)
			a.copyFrom(used)
			a.lose(v, keep(seed), rng)
			b.lose(w, keep(seed), rng)
			if a.hash() != b.hash() || a.filter.durable.hash != a.filter.cache.hash {
				t.Fatal("the copy differs after a power loss")
			}
			sum := uint64(0)
			for word, value := range a.filter.cache.words {
				sum += term(uint64(word), value)
			}
			if sum != a.filter.cache.hash {
				t.Fatal("the hash does not match the words")
			}
			before := v.hash()
			w.Filter().Store(0, 99)
			if v.hash() != before {
				t.Fatal("the original changes with the copy")
			}
		}
	}
}

// runs is a file that can store runs of words.
type runs interface {
	recovery.File
	recovery.RunStorer
}

// TestRuns stores the same words to one volume in runs, and to another one by one. Both must have the
// same events, and the same content after a crash at any of them.
func TestRuns(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var vols [2]*Volume
		var files [2][2]runs
		var saw [2][]uint64
		muted := rng.IntN(8) == 0
		next, aimed, left := 1+rng.IntN(2000), Event(rng.IntN(int(eventKinds))), 1+rng.IntN(400)
		for i := range vols {
			v := testVolume(t, sectorSizes[seed%4])
			log, err := v.CreateLog(wal.MinBytes)
			must(t, err)
			vols[i], files[i] = v, [2]runs{v.Filter().(runs), log.(runs)}
			v.events, v.muted, v.next = 0, muted, next
			if aimed != StoreSame { // left does not count these events
				v.left = [eventKinds]int{}
				v.left[aimed] = left
			}
			v.hook = func(e Event) {
				saw[i] = append(saw[i], uint64(e), uint64(v.events), v.hash())
				v.next = v.events + 1 + v.events%50
			}
		}
		for range 40 {
			file, fails, ranged := rng.IntN(2), rng.IntN(4) == 0, rng.IntN(2) == 0
			size := []uint64{layout.WordRuntime + 100, 3 * wal.PageWords}[file]
			word := rng.Uint64N(size)
			values := slices.Clone(files[0][file].Words()[word : word+rng.Uint64N(size-word)])
			for range rng.IntN(4) {
				if len(values) > 0 {
					values[rng.IntN(len(values))] = rng.Uint64N(2)
				}
			}
			do := rng.IntN(3)
			for i, v := range vols {
				f := files[i][file]
				switch {
				case do == 0:
					v.FailOdds = 0
					if fails {
						v.FailOdds = 1
					}
					if filter, ok := f.(recovery.RangeSyncer); ok && ranged {
						filter.SyncRange(0, layout.WordStash)
					} else {
						f.Sync()
					}
				case i == 0:
					f.StoreRun(word, values)
				default:
					for j, value := range values {
						f.Store(word+uint64(j), value)
					}
				}
			}
			v, w := vols[0], vols[1]
			if v.events != w.events || !slices.Equal(saw[0], saw[1]) || v.patched != w.patched {
				t.Fatalf("seed %d: %d events, not %d", seed, v.events, w.events)
			}
			lost := rng.Uint64()
			var hashes [2]uint64
			for i, some := range vols {
				rng := rand.New(rand.NewPCG(lost, 0))
				child := new(Volume)
				child.lose(some, Loss{Keep: func(n uint32) uint32 { return rng.Uint32N(n + 1) }, Names: all.Names}, nil)
				hashes[i] = child.hash()
			}
			if hashes[0] != hashes[1] {
				t.Fatalf("seed %d: a power loss leaves different words", seed)
			}
		}
	}
}

// TestCopyAs copies a clean volume into one with sectors of another size.
func TestCopyAs(t *testing.T) {
	v := testVolume(t, 4096)
	v.Filter().Store(layout.WordRegion, 1)
	must(t, v.Filter().Sync())
	w := new(Volume)
	for number, size := range sectorSizes {
		w.copyAs(v, sectorShift(number))
		if w.hash() != v.hash() {
			t.Errorf("sectors of %d bytes: the copy differs", size)
		}
		f := w.Filter()
		f.Store(layout.WordRegion, 2)
		f.Store(layout.WordRegion+uint64(size)/8, 3) // in the next sector
		first := true
		one := Loss{Names: none.Names, Keep: func(n uint32) uint32 {
			if first {
				first = false
				return n
			}
			return 0
		}}
		if got := after(w, one, layout.WordRegion); got != 2 || len(w.filter.dirty) != 2 {
			t.Errorf("sectors of %d bytes: %d sectors are dirty, and the first word is %d", size, len(w.filter.dirty), got)
		}
	}
}

// TestRounds runs rounds until there are enough states. No round may be much longer than necessary.
func TestRounds(t *testing.T) {
	for _, each := range []uint64{1, 160, 1 << 20} { // states of a trace
		for _, states := range []uint64{1, 50_000, 5_000_000} {
			var done Stats
			rounds := 0
			for ; done.States < states; rounds++ {
				n := nextRound(done, states)
				if n == 0 || n%minRound != 0 {
					t.Fatalf("a round of %d traces", n)
				}
				done.Traces += n
				done.States += n * each
			}
			if most := states + minRound*each; done.States >= most && rounds > 0 {
				t.Errorf("%d states of %d", done.States, states)
			}
			if rounds > 40 {
				t.Errorf("%d rounds for %d states", rounds, states)
			}
		}
	}
}
