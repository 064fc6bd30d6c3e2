package mmapfilter

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
	"golang.org/x/sys/unix"
)

// TestOrderOfLoads covers R2: Contains must load epoch and counter before the first slot, in the same
// order as Lookup. A test cannot stop Contains between loads. So the epoch, the counter and the halves
// of the line are in different pages, which cannot be read. Each lookup faults at the first such page,
// which then becomes readable for the next one.
//
// TestLooksBetweenLoads checks that lookups load epoch and counter again after the slots.
func TestOrderOfLoads(t *testing.T) {
	page := os.Getpagesize()
	data, err := unix.Mmap(-1, 0, 4*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(t, err)
	defer unix.Munmap(data)
	for _, s := range lookShapes {
		t.Run(s.String(), func(t *testing.T) { orderOfLoads(t, s, data, page) })
	}
}

func orderOfLoads(t *testing.T, s shape, data []byte, page int) {
	g := s.Geometry(t, 1)
	table := layout.NewTable(g)
	words, perPage := recovery.Words(data), page/8
	// The epoch is at the end of page 0 and the counter in page 1; the first half of the line is in
	// page 2 and the second in page 3.
	epoch, region := perPage-1, 3*perPage-layout.BlockWords/2
	view := layout.View{
		Runtime: words[epoch : epoch+layout.RuntimeWords],
		Region:  words[region : region+layout.BlockWords],
		Stash:   make([]uint64, layout.StashWords),
	}
	hasher := layout.NewHasher(8)
	direct := layout.NewDirect(table, &view, &hasher, func(h uint64) bool { return layout.Contains(table, &view, h) })
	for _, h := range hashes(8, 100) {
		want := []int{0, 1, 2, 3} // of the line, the counts in its first half are loaded first
		for name, look := range map[string]func() bool{
			"Contains": func() bool { return layout.Contains(table, &view, h) },
			"Direct":   func() bool { return direct.ContainsHash(h) },
			"Lookup":   func() bool { return layout.Lookup(table, view.At, h) },
		} {
			must(t, unix.Mprotect(data, unix.PROT_NONE))
			var order []int
			for len(order) <= len(want) {
				fault := osfile.Catch(data, func() {
					if look() {
						t.Error("a key is found in an empty table")
					}
				})
				if fault == nil {
					break
				}
				at := int(fault.Offset) / page
				order = append(order, at)
				must(t, unix.Mprotect(data[at*page:(at+1)*page], unix.PROT_READ))
			}
			if !slices.Equal(order, want) {
				t.Errorf("%s: the pages are read in the order %v, not %v", name, order, want)
			}
		}
	}
}

// A lateMemory is memory whose pages are missing until the test supplies them. A thread that touches a
// missing page waits for it (userfaultfd).
type lateMemory struct {
	data  []byte
	there map[int]bool // the pages that are not missing
	uffd  int
	args  []byte // memory outside the heap for arguments of calls
}

func newLateMemory(t *testing.T, pages int) *lateMemory {
	const userModeOnly = 1
	uffd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		t.Skipf("NOT TESTED: the system has no userfaultfd for this process: %v", errno)
	}
	m := &lateMemory{uffd: int(uffd), there: map[int]bool{}}
	t.Cleanup(func() { unix.Close(m.uffd) })
	for part, pages := range map[*[]byte]int{&m.data: pages, &m.args: 2} {
		var err error
		if *part, err = unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if !t.Failed() { // after a failure, a lookup may still be reading
				unix.Munmap(*part)
			}
		})
	}
	const version, missing = 0xAA, 1
	m.call(t, 0xC018AA3F, version, 0, 0)                                    // UFFDIO_API
	m.call(t, 0xC020AA00, address(m.data), uint64(len(m.data)), missing, 0) // UFFDIO_REGISTER
	return m
}

func address(b []byte) uint64 { return uint64(reflect.ValueOf(b).Pointer()) }

func (m *lateMemory) call(t *testing.T, request uintptr, args ...uint64) {
	t.Helper()
	for i, a := range args {
		binary.NativeEndian.PutUint64(m.args[8*i:], a)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m.uffd), request, uintptr(address(m.args))); errno != 0 {
		t.Fatalf("ioctl %#x: %v", request, errno)
	}
}

// forWaiting prepares for threads that wait for a page: it allows another thread to run and turns
// garbage collection off, because such a thread occupies a processor and cannot be stopped for a
// collection.
func forWaiting() (end func()) {
	processors, percent := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))), debug.SetGCPercent(-1)
	runtime.GC()
	return func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	}
}

// touched waits until a thread touches a missing page, and returns the number of the page. A thread that
// gets a signal while it waits touches the page again. This may be reported after the page was supplied,
// so touched ignores it.
func (m *lateMemory) touched(t *testing.T) (page int) {
	t.Helper()
	for {
		var message [32]byte
		n, err := unix.Read(m.uffd, message[:])
		if err == unix.EINTR {
			continue
		}
		if n != len(message) || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		page = int(binary.NativeEndian.Uint64(message[16:])-address(m.data)) / os.Getpagesize()
		if !m.there[page] {
			return page
		}
	}
}

// supply supplies a page, with the content of the second page of args.
func (m *lateMemory) supply(t *testing.T, page int) {
	t.Helper()
	size := uint64(os.Getpagesize())
	m.call(t, 0xC028AA03, address(m.data)+uint64(page)*size, address(m.args)+size, size, 0, 0) // UFFDIO_COPY
	m.there[page] = true
}

// takeAway removes all pages again.
func (m *lateMemory) takeAway(t *testing.T) {
	t.Helper()
	must(t, unix.Madvise(m.data, unix.MADV_DONTNEED))
	clear(m.there)
}

// muchCounted is the initial value of removal counters. Nearly all its bits are set, so that a lookup
// that combines counters and epoch might miss a change of the epoch.
const muchCounted = 1<<63 - 2

// shortKey returns a key of a length that a Direct hashes itself.
func shortKey(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

// TestDirectLooksAgain: if the epoch or the counter of a line changes while a Direct waits for the line,
// it leaves the lookup open. (TestLooksBetweenLoads has a key that a Direct would otherwise miss if it
// loads the words one by one. If it loads a whole line, it can only miss a key of which a recovery has
// stored one word and not yet another.)
func TestDirectLooksAgain(t *testing.T) {
	defer forWaiting()()
	for _, kernel := range kernel.Names() {
		for _, s := range lookShapes {
			t.Run(fmt.Sprintf("%s/%v", kernel, s), func(t *testing.T) {
				withKernel(t, kernel)
				directLooksAgain(t, s, kernel == "avx2" || kernel == "avx512")
			})
		}
	}
}

// directLooksAgain uses a table of two pages. A key has its home line in page 0.
func directLooksAgain(t *testing.T, s shape, has bool) {
	perPage := os.Getpagesize() / 8
	perPageLines := uint64(perPage) / layout.BlockWords
	g := s.Geometry(t, 2*perPageLines)
	table, hasher := layout.NewTable(g), layout.NewHasher(8)
	var key []byte
	var home layout.Item
	for i := 0; i == 0 || home.Line >= perPageLines; i++ {
		key = shortKey(i)
		home = table.Split(hasher.Hash(key))
	}
	empty := make([]uint64, 2*perPage)
	counterOf := func(line uint64) uint64 { return layout.CounterOf(layout.WordRegion + line*layout.BlockWords) }
	changes := map[string]uint64{"nothing": layout.RuntimeWords, "counter": counterOf(home.Line), "epoch": layout.RuntimeEpoch}
	for name, word := range changes {
		for _, byKey := range []bool{false, true} {
			runtime := make([]uint64, layout.RuntimeWords+1) // the last word is unused
			layout.Counters(func(word uint64) { runtime[word] = muchCounted })
			look := func(region []uint64) (found, open bool) {
				view := layout.View{Region: region, Runtime: runtime[:layout.RuntimeWords], Stash: make([]uint64, layout.StashWords)}
				direct := layout.NewDirect(table, &view, &hasher, func(uint64) bool { open = true; return false })
				if byKey {
					return direct.Contains(key), open
				}
				return direct.ContainsHash(hasher.Hash(key)), open
			}
			if _, open := look(empty); open {
				if has && layout.KernelOf(table) == kernel.InUse().String() {
					t.Error("a Direct leaves the lookup open although nothing changes")
				}
				return
			}
			m, done := newLateMemory(t, 2), make(chan bool)
			go func() {
				if found, open := look(recovery.Words(m.data)); found || open != (name != "nothing") {
					t.Errorf("%s, by key %t: found %t, open %t", name, byKey, found, open)
				}
				close(done)
			}()
			if page := m.touched(t); page != 0 {
				t.Errorf("the lookup waits for page %d", page)
			}
			atomic.AddUint64(&runtime[word], 2)
			clear(recovery.Words(m.args)[perPage:])
			m.supply(t, 0)
			<-done
		}
	}
}

// TestOrderOfSecondLook covers R2 for lookups that go on to a second look: they load all counters before
// the home line, and again after the stash. Only one page is present at a time, so the test sees each
// step from one page to another.
func TestOrderOfSecondLook(t *testing.T) {
	defer forWaiting()()
	for _, kernel := range kernel.Names() {
		for _, s := range lookShapes {
			t.Run(fmt.Sprintf("%s/%v", kernel, s), func(t *testing.T) {
				withKernel(t, kernel)
				orderOfSecondLook(t, s)
			})
		}
	}
}

func orderOfSecondLook(t *testing.T, s shape) {
	perPage := uint64(os.Getpagesize() / 8)
	lines := perPage / layout.BlockWords // of a page
	g := s.Geometry(t, 2*lines)
	table, hasher := layout.NewTable(g), layout.NewHasher(8)
	var key []byte
	var hash uint64
	var home layout.Item // in the first page of the region; the second line is in the other one
	for i := 0; i == 0 || home.Line >= lines || table.Alternate(home).Line < lines; i++ {
		key = shortKey(i)
		hash = hasher.Hash(key)
		home = table.Split(hash)
	}
	// Page e has the epoch and the counter of the stash, page c the counters of lines, the pages s the
	// stash, page h the home line, and page n the alternate line. After the lookup, the goroutine
	// touches the last page.
	const pages, stashFrom, regionFrom = "ecssshn.", 2, 5
	runtimeFrom := perPage - layout.CounterOf(layout.WordRegion)
	content := make([]uint64, len(pages)*int(perPage))
	var l layout.Line
	table.(layout.Hosts).SetOverflow(&l, home, nil)
	layout.Store(table, content[regionFrom*perPage:], home.Line, &l)
	for name, look := range waysToLook {
		m := newLateMemory(t, len(pages))
		words := recovery.Words(m.data)
		found := make(chan bool)
		go func() {
			answer := look(table, &layout.View{
				Runtime: words[runtimeFrom:][:layout.RuntimeWords],
				Stash:   words[stashFrom*perPage:][:layout.StashWords],
				Region:  words[regionFrom*perPage:][:g.Lines*layout.BlockWords],
			}, &hasher, key)
			words[len(words)-1] = 1
			found <- answer
		}()
		steps := ""
		for !strings.HasSuffix(steps, ".") {
			page := m.touched(t)
			steps += pages[page : page+1]
			m.takeAway(t)
			copy(recovery.Words(m.args)[perPage:], content[uint64(page)*perPage:][:perPage])
			m.supply(t, page)
		}
		if <-found || !secondLook.MatchString(steps) {
			t.Errorf("%s goes through %s", name, steps)
		}
	}
}

var secondLook = regexp.MustCompile(`(ec|ce)[ec]*h(ns)+(ec|ce)[ec]*\.$`)

// waysToLook has functions that look a key up in a file without a writer.
var waysToLook = map[string]func(table layout.Table, v *layout.View, h *layout.Hasher, key []byte) bool{
	"Contains": func(table layout.Table, v *layout.View, h *layout.Hasher, key []byte) bool {
		return layout.Contains(table, v, h.Hash(key))
	},
	"Direct": func(table layout.Table, v *layout.View, h *layout.Hasher, key []byte) bool {
		return layout.NewDirect(table, v, h, func(h uint64) bool { return layout.Contains(table, v, h) }).Contains(key)
	},
	"ContainsHashes": func(table layout.Table, v *layout.View, h *layout.Hasher, key []byte) bool {
		return containsIn(8, table, v, h.Hash(key)) // enough hashes for a kernel
	},
	"ContainsHashes of 300": func(table layout.Table, v *layout.View, h *layout.Hasher, key []byte) bool {
		return containsIn(300, table, v, h.Hash(key))
	},
	"Lookup": func(table layout.Table, v *layout.View, h *layout.Hasher, key []byte) bool {
		return layout.Lookup(table, v.At, h.Hash(key))
	},
}

// withKernel makes lookups use a kernel while a test runs.
func withKernel(t *testing.T, name string) {
	before := kernel.InUse().String()
	must(t, kernel.Use(name))
	t.Cleanup(func() { kernel.Use(before) })
}

// containsIn looks a hash up in a batch of n copies of it.
func containsIn(n int, table layout.Table, v *layout.View, hash uint64) bool {
	found := make([]bool, n)
	layout.ContainsHashes(table, v, slices.Repeat([]uint64{hash}, n), found)
	return found[0]
}
