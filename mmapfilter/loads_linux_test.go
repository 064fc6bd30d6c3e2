package mmapfilter

import (
	"os"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// TestOrderOfLoads bears R2: Contains, whose loads cannot be stopped one by one as
// those of Lookup can, loads epoch and counter before the first slot, in the order
// of Lookup. Each of the words is in a page of its own that cannot be read; a
// lookup faults at the first of them, and may read that one the next time.
//
// That both are loaded again after the slots is not seen this way: TestConcurrent
// is about that.
func TestOrderOfLoads(t *testing.T) {
	page := os.Getpagesize()
	data, err := unix.Mmap(-1, 0, 4*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	g, err := layout.NewGeometry(layout.Blocked, layout.Params{FingerprintBits: 12, BucketSize: 5}, 1)
	if err != nil {
		t.Fatal(err)
	}
	table := layout.NewTable(g)
	words, perPage := recovery.Words(data), page/8
	// The epoch is at the end of page 0 and the counter in page 1; the first half of
	// the line is in page 2 and the second in page 3.
	runtime, region := perPage-1, 3*perPage-lineWords/2
	view := layout.View{
		Runtime: words[runtime : runtime+layout.RuntimeWords],
		Region:  words[region : region+lineWords],
		Stash:   make([]uint64, layout.StashWords),
	}
	tried := 0
	for _, h := range hashes(8, 100) {
		// Where its two buckets are in different pages, the first one comes first.
		var l layout.Line
		var marks layout.Stores
		it := table.Split(h)
		table.SetOverflow(&l, it, &marks)
		first, _ := marks.At(0)
		second, _ := marks.At(1)
		if uint32(first) != it.Bucket || first/(lineWords/2) == second/(lineWords/2) {
			continue
		}
		tried++
		want := []int{0, 1, 2 + first/(lineWords/2), 2 + second/(lineWords/2)}
		for name, look := range map[string]func() bool{
			"Contains": func() bool { return table.Contains(&view, h) },
			"Lookup":   func() bool { return table.Lookup(view.At, h) },
		} {
			if err := unix.Mprotect(data, unix.PROT_NONE); err != nil {
				t.Fatal(err)
			}
			var order []int
			for len(order) <= len(want) {
				fault := recovery.Guard(data, func() {
					if look() {
						t.Error("a key is found in an empty table")
					}
				})
				if fault == nil {
					break
				}
				at := int(fault.Offset) / page
				order = append(order, at)
				if err := unix.Mprotect(data[at*page:(at+1)*page], unix.PROT_READ); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(order, want) {
				t.Errorf("%s: the pages are read in the order %v, not %v", name, order, want)
			}
		}
	}
	if tried == 0 {
		t.Error("no hash has its buckets in two pages")
	}
}
