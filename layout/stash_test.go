package layout_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	. "github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestStash fills the stash with items of random classes until it refuses one, and compares the counts
// with a map.
func TestStash(t *testing.T) {
	layouttest.Each(t, 1_000_003, func(t *testing.T, tab Table) {
		rng := rand.New(rand.NewPCG(11, 12))
		v := &View{Region: make([]uint64, 8*1_000_003), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
		model := map[Class]uint64{}
		var classes []Class
		for {
			it := tab.Split(rng.Uint64())
			c := tab.Class(it)
			if len(classes) > 0 && rng.IntN(4) == 0 {
				c = classes[rng.IntN(len(classes))]
			} else if model[c] == 0 {
				classes = append(classes, c)
				var l Line
				Load(tab, v.Region, it.Line, &l)
				layouttest.SetOverflow(tab, &l, it)
				Store(tab, v.Region, it.Line, &l)
			}
			before := append([]uint64(nil), v.Stash...)
			if !StashAdd(v.Stash, c, layouttest.Into(v.Stash)) {
				for i := range before {
					if v.Stash[i] != before[i] {
						t.Fatal("a refused item changed the stash")
					}
				}
				classes = classes[:len(classes)-1]
				break
			}
			model[c]++
		}
		var items uint64
		for c, n := range model {
			items += n
			if got := StashCount(v.Stash, c); got != n {
				t.Fatalf("%d of %+v, not %d", got, c, n)
			}
		}
		entries, counted, err := CheckStash(tab, v)
		used, inUse := StashUse(v.Stash)
		if err != nil || entries != len(classes) || counted != items || StashLen(v.Stash) != entries || used != entries || inUse != items {
			t.Errorf("%d entries, %d items, not %d, %d: %v", entries, counted, len(classes), items, err)
		}
		if len(classes) != StashEntries { // C7: the stash refuses no item while an entry is free
			t.Errorf("full with %d of %d entries", len(classes), StashEntries)
		}
	})
}

// TestStashCountIsBounded: the count of an entry does not overflow.
func TestStashCountIsBounded(t *testing.T) {
	stash := make([]uint64, StashBytes/8)
	c := Class{Line: 5, Bucket: 1, Fp: 77}
	StashAdd(stash, c, layouttest.Into(stash))
	i, _ := StashEntry(func(w uint64) uint64 { return stash[w-WordStash] }, c)
	stash[i+1-WordStash] |= MaxStashCount
	if StashAdd(stash, c, layouttest.Into(stash)) || StashCount(stash, c) != MaxStashCount {
		t.Error("the count overflowed")
	}
}

// TestCheckStash breaks each part of F12 in an entry of a golden image.
func TestCheckStash(t *testing.T) {
	image, _, g := readImage(t, "compact-q41.mmf")
	tab := NewTable(g)
	words := make([]uint64, len(image)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(image[8*i:])
	}
	fresh := func() *View {
		return &View{
			Stash:   append([]uint64(nil), words[OffStash/8:OffRegion/8]...),
			Runtime: make([]uint64, RuntimeWords),
			Region:  append([]uint64(nil), words[OffRegion/8:g.OffTable/8]...),
		}
	}
	v := fresh()
	entries, items, err := CheckStash(tab, v)
	if err != nil || entries != 66 || items != 73 {
		t.Fatalf("%d entries, %d items, %v", entries, items, err)
	}
	at := 0
	for v.Stash[at+1] == 0 {
		at += 2
	}
	for name, change := range map[string]func(v *View){
		"count 0": func(v *View) { v.Stash[at+1] &^= MaxStashCount },
		"line":    func(v *View) { v.Stash[at] += 1 << 40 },
		"the higher line": func(v *View) {
			c := Class{Line: v.Stash[at] & 0xFFFFFF, Bucket: uint32(v.Stash[at] >> 56), Fp: uint32(v.Stash[at+1] >> 32)}
			v.Stash[at] = tab.Alternate(Item(c)).Line | uint64(c.Bucket)<<56
		},
		"bucket":      func(v *View) { v.Stash[at] |= 9 << 56 },
		"fingerprint": func(v *View) { v.Stash[at+1] |= 1 << 63 },
		"another place": func(v *View) {
			v.Stash[at+2], v.Stash[at+3], v.Stash[at], v.Stash[at+1] = 0, 0, 0, 0
			v.Stash[(at+16)%1536], v.Stash[(at+17)%1536] = words[OffStash/8+at], words[OffStash/8+at+1]
		},
		"a group mark where none is": func(v *View) { v.Stash[at+2] |= GroupMark },
		"two entries":                func(v *View) { v.Stash[at+2], v.Stash[at+3] = v.Stash[at], v.Stash[at+1] },
		"no overflow bits": func(v *View) {
			for i := BlockWords - 1; i < len(v.Region); i += BlockWords {
				v.Region[i] &^= 0xFFFF << 48
			}
		},
	} {
		v := fresh()
		change(v)
		_, _, err := CheckStash(tab, v)
		var e *CorruptError
		if !errors.As(err, &e) || e.Region != RegionStash || e.Offset < OffStash || e.Offset >= OffRegion {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCheckStash: no content of the stash makes reading it panic. After an item is added, it is found;
// if the stash was sound, its count is exact.
func FuzzCheckStash(f *testing.F) {
	g, err := NewGeometry(Compact, one, 9)
	must(f, err)
	tab := NewTable(g)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 3, 0, 0, 0}, uint64(5))
	f.Add(bytes.Repeat([]byte{7: 1, 15: 0}, StashEntries), uint64(2)) // free, except for word 0
	f.Add([]byte{}, uint64(1))
	for count := range uint64(2) {
		f.Add(strayEntry(tab.Class(tab.Split(5)), count), uint64(5))
	}
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		v := &View{Region: make([]uint64, 72), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
		for i := BlockWords - 1; i < len(v.Region); i += BlockWords {
			v.Region[i] = 0xFFFF << 48
		}
		for i := 0; i+8 <= len(b) && i < StashBytes; i += 8 {
			v.Stash[i/8] = binary.LittleEndian.Uint64(b[i:])
		}
		_, _, err := CheckStash(tab, v)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("untyped error %v", err)
		}
		c := tab.Class(tab.Split(h))
		n := StashCount(v.Stash, c)
		if !StashAdd(v.Stash, c, layouttest.Into(v.Stash)) {
			return
		}
		if got := StashCount(v.Stash, c); got <= n || err == nil && got != n+1 {
			t.Fatalf("count %d after adding to %d", got, n)
		}
		if _, _, after := CheckStash(tab, v); err == nil && after != nil {
			t.Fatalf("adding to a sound stash: %v", after)
		}
	})
}

// strayEntry returns a stash with an entry for c that has this count. No lookup reaches the entry,
// because the group before it, where lookups begin, is full but not marked.
func strayEntry(c Class, count uint64) []byte {
	b := make([]byte, StashBytes)
	put := func(word uint64, c Class, count uint64) {
		binary.LittleEndian.PutUint64(b[8*word:], c.Word0())
		binary.LittleEndian.PutUint64(b[8*word+8:], uint64(c.Fp)<<32|count)
	}
	group := c.FirstGroup()
	for i := uint64(0); i < GroupWords; i += 2 {
		put(group+i, Class{Line: c.Line, Bucket: c.Bucket, Fp: c.Fp + 1 + uint32(i)}, 1)
	}
	put(NextGroup(group), c, count)
	return b
}
