package writer

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestPendingInSecondBlock checks that lookups find an inserted key before it is durable, even if its
// line spans two blocks of 64 bytes and words are pending in the second block only. Each insert is alone
// in its batch.
func TestPendingInSecondBlock(t *testing.T) {
	const lines = 192
	for _, kind := range []layout.Kind{layout.Packed, layout.SemiSorted} {
		for _, p := range layout.LegalParams(kind) {
			s := tabletest.Shape{Kind: kind, Params: p}
			w := mustWriter(t, s.Volume(t, lines), 1<<20)
			rng := rand.New(rand.NewPCG(uint64(p.FingerprintBits), uint64(p.BucketSize)))
			inTwo, secondAlone := 0, 0
			insert := func(h uint64) {
				secondAlone += insertAlone(t, s, w, h)
			}
			for line := range uint64(lines) {
				if first, last := blocksOf(w.table, line); first == last {
					continue
				}
				inTwo++
				// An item may change the second block only: an item alone in its line if its fingerprint
				// has a single bit, and an item beside others with any bits. Items of the first kind are
				// deleted again.
				for i := range p.FingerprintBits + p.BucketSize {
					h := multiset.HashOf(w.table, layout.Item{Line: line, Fp: 1 << (i % p.FingerprintBits)})
					insert(h)
					if i >= p.FingerprintBits {
						continue
					}
					if ok, err := w.Delete(h); !ok || err != nil {
						t.Fatalf("%s: %t, %v", s, ok, err)
					}
				}
			}
			for range min(int(s.Slots())*lines*3/4, 150) {
				insert(rng.Uint64())
			}
			if (inTwo == 0) != (secondAlone == 0) {
				t.Errorf("%s: %d lines are in two blocks, and words were pending in the second block only %d times", s, inTwo, secondAlone)
			}
		}
	}
}

// insertAlone inserts an item in a batch of its own, and looks it up in every way. It returns 1 if words
// were pending in a second block only, and otherwise 0.
func insertAlone(t *testing.T, s tabletest.Shape, w *Writer, h uint64) (secondAlone int) {
	t.Helper()
	must(t, w.Sync())
	if err := w.Insert(h); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	if secondBlockAlone(w, h) {
		secondAlone = 1
	}
	found := make([]bool, 1)
	w.ContainsAll([]uint64{h}, found)
	if one, n := w.Contains(h), w.Count(h); !one || !found[0] || n == 0 {
		t.Fatalf("%s: %+v was inserted; found alone: %t, in a batch: %t; Count: %d", s, w.table.Split(h), one, found[0], n)
	}
	return secondAlone
}

// blocksOf returns the first and the last block of a line.
func blocksOf(t layout.Table, line uint64) (first, last uint64) {
	word, n := t.Words(line)
	return word / layout.BlockWords, (word + uint64(n) - 1) / layout.BlockWords
}

// secondBlockAlone reports whether words are pending in the second block of a line of an item, but not
// in the first block nor in the item's other line.
func secondBlockAlone(w *Writer, hash uint64) bool {
	it, p := w.table.Split(hash), w.overlay.Load()
	other := w.table.Alternate(it).Line
	for _, pair := range [][2]uint64{{it.Line, other}, {other, it.Line}} {
		first, last := blocksOf(w.table, pair[0])
		if first != last && !p.Has(first) && p.Has(last) && !w.isPending(p, pair[1]) {
			return true
		}
	}
	return false
}
