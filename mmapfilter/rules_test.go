package mmapfilter

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// forEachShape runs a test for every layout, with some of its parameters.
func forEachShape(t *testing.T, test func(t *testing.T, p shape)) {
	for _, p := range shapes() {
		t.Run(p.String(), func(t *testing.T) { test(t, p) })
	}
}

// newLines is createLines in a new directory in memory.
func newLines(t *testing.T, p shape, lines uint64, opts Options) (f *Filter, path string) {
	t.Helper()
	path = filepath.Join(memoryDir(t), "filter.mmf")
	f = createLines(t, path, p, lines, opts)
	t.Cleanup(func() { f.Close() })
	return f, path
}

// TestCopies covers C7: more copies of a key than its lines hold can be inserted one by one, survive a
// crash, and can be deleted one by one.
func TestCopies(t *testing.T) {
	forEachShape(t, func(t *testing.T, p shape) {
		f, path := newLines(t, p, 50, Options{Seed: 1}) // with other seeds, the key may have only one line
		key := []byte("many times")
		check := func(f *Filter, copies uint64) {
			t.Helper()
			if f.Count(key) != copies || f.Contains(key) != (copies > 0) || f.Len() != copies {
				t.Fatalf("%d copies: count %d, length %d", copies, f.Count(key), f.Len())
			}
		}
		n := 2*p.Slots() + 10
		for i := range n {
			must(t, f.Insert(key))
			check(f, i+1)
		}
		if stashed := writerOf(f).State().StashLen; stashed != 1 {
			t.Errorf("%d entries of the stash are in use", stashed)
		}
		g := openQuiet(t, abandon(t, f, path))
		defer g.Close()
		for i := n; i > 0; i-- {
			check(g, i)
			if ok, err := g.Delete(key); !ok || err != nil {
				t.Fatalf("delete: %t, %v", ok, err)
			}
		}
		check(g, 0)
		if ok, err := g.Delete(key); ok || err != nil || g.Len() != 0 {
			t.Fatalf("a delete without a copy: %t, %v; %d are left", ok, err, g.Len())
		}
	})
}

// TestStashCounts covers C7 for a full stash: keys of a class that has an entry can still be inserted,
// up to the maximum count. Then an insert returns ErrFull.
func TestStashCounts(t *testing.T) {
	f, path := newLines(t, compact26, 3, Options{})
	w := writerOf(f)
	h := hold(t, f, path, seeded(t, 1))
	h.fill()
	if n := w.State().StashLen; n != layout.StashEntries {
		t.Fatalf("the filter is full with %d entries of the stash in use", n)
	}
	hash := h.hashes[slices.IndexFunc(h.hashes, func(hash uint64) bool { return h.stashed(hash) == 1 })]
	for range 3 {
		h.insert(hash)
	}
	h.mustHold()

	// Set the count as if there had been four billion inserts.
	const end = 1<<32 - 1
	class := w.Table().Class(w.Table().Split(hash))
	for i := 1; i < len(w.Stash()); i += 2 {
		if w.Stash()[i]>>32 == uint64(class.Fp) && w.Stash()[i-1]&(1<<56-1) == class.Line {
			w.Stash()[i] |= end
		}
	}
	for range 2 {
		if n, err := h.stashed(hash), f.InsertHash(hash); n != end || !errors.Is(err, ErrFull) {
			t.Fatalf("an insert at count %d, the maximum: %v", n, err)
		}
	}
	if n := h.stashed(hash); n != end || f.Len() != uint64(len(h.hashes)) {
		t.Fatalf("the count is %d, %d keys", n, f.Len())
	}
}

// TestFull covers C3: a full filter has room for a key that was just deleted, and loses nothing, even if
// entries of the stash count several items, so that a delete does not free an entry.
func TestFull(t *testing.T) {
	forEachShape(t, func(t *testing.T, p shape) {
		f, path := newLines(t, p, p.Lines(3), Options{})
		h := hold(t, f, path, seeded(t, 3))
		h.fill()
		for _, hash := range slices.Clone(h.hashes) {
			if h.stashed(hash) > 0 {
				h.insert(hash)
			}
		}
		for range 200 {
			h.insert(h.remove())
		}
		h.mustHold()
	})
}

// TestDeletesBesideADamagedStash: a damaged entry of the stash never moves into a line, even if deletes
// make room there. No other item is lost, and nothing panics.
func TestDeletesBesideADamagedStash(t *testing.T) {
	type words = [2]uint64
	for name, damage := range map[string]func(place uint64, entry words) (uint64, words){
		"no items":       func(place uint64, e words) (uint64, words) { return place, words{e[0], e[1] &^ (1<<32 - 1)} },
		"another group":  func(place uint64, e words) (uint64, words) { return (place + 16) % layout.StashWords, e },
		"no line":        func(place uint64, e words) (uint64, words) { return place, words{1 << 40, e[1]} },
		"no bucket":      func(place uint64, e words) (uint64, words) { return place, words{e[0] | 127<<56, e[1]} },
		"no fingerprint": func(place uint64, e words) (uint64, words) { return place, words{e[0], e[1] | 1<<63} },
	} {
		forEachShape(t, func(t *testing.T, p shape) {
			if p.FingerprintBits == 32 && name == "no fingerprint" {
				return // every value is a fingerprint
			}
			f, path := newLines(t, p, p.Lines(20), Options{LogBytes: wal.MinBytes})
			table := writerOf(f).Table()
			hashes := hashes(1, int(table.Lines()*p.Slots()/2))
			insertAll(t, f, hashes)
			must(t, f.Close())
			var entry words
			var place uint64
			layout.StashAdd(make([]uint64, layout.StashWords), table.Class(table.Split(spread(0))), func(word, value uint64, _ bool) {
				entry[word%2] = value
				place = (word - layout.WordStash) &^ 1
			})
			place, entry = damage(place, entry)
			image := readFile(t, path)
			binary.LittleEndian.PutUint64(image[layout.OffStash+8*place:], entry[0])
			binary.LittleEndian.PutUint64(image[layout.OffStash+8*place+8:], entry[1])
			must(t, os.WriteFile(path, image, 0o644))
			f = mustOpen(t, path, &OpenOptions{CommitInterval: -1})
			half := len(hashes) / 2
			for i, h := range hashes[:half] {
				if ok, err := f.DeleteHash(h); !ok || err != nil {
					t.Fatalf("%s: delete %d: %t, %v", name, i, ok, err)
				}
			}
			mustContain(t, f, hashes[half:])
			if n := f.Stats().StashLen; n != 1 {
				t.Errorf("%s: %d entries in the stash", name, n)
			}
		})
	}
}
