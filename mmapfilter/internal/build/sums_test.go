package build

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestListsSoMuch checks that the report lists all damage up to maxDamage, and then no more.
func TestListsSoMuch(t *testing.T) {
	v := new(verification)
	for i := range int64(2 * maxDamage) {
		v.damaged(&layout.CorruptError{Offset: i})
		if n := len(v.report.Damage); n != min(int(i)+1, maxDamage) {
			t.Fatalf("the report lists %d of %d", n, i+1)
		}
	}
}

// TestClassSums covers K6: the sums of items do not depend on their order, and are equal to those of a
// table with the same items. An item more or less changes the sums of one piece. Sums also differ if an
// item is replaced by another one.
func TestClassSums(t *testing.T) {
	const pieces = 5
	for _, s := range tabletest.OneEach() {
		table, view := s.Memory(t, 300)
		p := place.New(table, place.NewUnlogged(table, view))
		rng := rand.New(rand.NewPCG(3, 4))
		var hashes []uint64
		for range 1000 {
			h := rng.Uint64()
			hashes = append(hashes, h, h)
		}
		for _, h := range hashes {
			if !p.Insert(table.Split(h)) {
				t.Fatal("no room")
			}
		}
		left := func(hashes []uint64) (n int) {
			sums := newClassSums(table, pieces)
			for _, h := range hashes {
				sums.add(table.Class(table.Split(h)), 1)
			}
			sums.subtract(&view)
			for _, sum := range sums.pieces {
				if sum != [2]uint64{} {
					n++
				}
			}
			return n
		}
		slices.Reverse(hashes)
		if n := left(hashes); n != 0 {
			t.Errorf("%s: the same items differ in %d pieces", s, n)
		}
		if n := left(hashes[1:]); n != 1 {
			t.Errorf("%s: with an item less, %d pieces differ", s, n)
		}
		if n := left(append(slices.Clone(hashes), hashes[0])); n != 1 {
			t.Errorf("%s: with an item more, %d pieces differ", s, n)
		}
		other := slices.Clone(hashes)
		other[0] ^= 1 << 63 // another line
		if n := left(other); n == 0 {
			t.Errorf("%s: with another item in place of one, no piece differs", s)
		}
	}
}
