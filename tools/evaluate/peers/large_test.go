package peers

import "testing"

// Tables of 2^33 bits, and 2^32.6 for the quotient filter, where a place does not fit in 32
// bits. Few keys touch few of their pages.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("it touches some hundred MiB")
	}
	each(t, 1<<30, func(t *testing.T, e Entry, f Filter) {
		n, copies := uint64(3000), 1
		if _, ok := f.(*dleft); ok {
			// In an almost empty table all keys are in the leftmost subtable. As many copies as
			// four buckets hold are in all four.
			n, copies = 300, subtables*bucketCells*maxCopies
		}
		for key := range n {
			for range copies {
				if !f.Insert(key) {
					t.Fatalf("key %d is refused", key)
				}
			}
		}
		for key := range n {
			if !f.Contains(key) {
				t.Fatalf("key %d is absent", key)
			}
		}
		for key := n; key < 100_000; key++ {
			if f.Contains(key) {
				t.Errorf("key %d is found in an almost empty table", key)
			}
		}
		// The keys are spread evenly over the table, before and beyond bit 2^32.
		before, beyond := touched(f)
		bits := f.Bytes() * 8
		share := float64(beyond) / float64(before+beyond)
		want := 1 - float64(1<<32)/float64(bits)
		t.Logf("%d bits: %.3f of %d words in use are beyond 2^32 bits, of all words %.3f", bits, share, before+beyond, want)
		if share < want-0.05 || share > want+0.05 {
			t.Errorf("%.3f of the words in use are beyond 2^32 bits, want %.3f", share, want)
		}
		if d, ok := f.(Deleter); ok {
			for key := range n {
				for range copies {
					if !d.Delete(key) {
						t.Fatalf("key %d is not there to be deleted", key)
					}
				}
			}
			if before, beyond := touched(f); before+beyond != 0 {
				t.Errorf("all keys are deleted, and %d words are in use", before+beyond)
			}
		}
	})
}

// touched counts the nonzero words before and after bit 2^32.
func touched(f Filter) (before, beyond int) {
	count := func(i int, w uint64) {
		if w == 0 {
			return
		}
		if i < 1<<32/64 {
			before++
		} else {
			beyond++
		}
	}
	if f, ok := f.(*blocked); ok { // without a copy of the table
		for l := range f.lines {
			for i, w := range f.lines[l] {
				count(l*8+i, w)
			}
		}
		return before, beyond
	}
	for i, w := range words(f) {
		count(i, w)
	}
	return before, beyond
}

// A cluster across bit 2^32, and one around the end of the table.
func TestLargeClusters(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a table of 768 MiB, of which it touches little")
	}
	d, err := NewQuotient(29, quotientRemainder)
	if err != nil {
		t.Fatal(err)
	}
	f := d.(*quotient)
	for _, from := range []uint64{1<<32/12 - 3, f.last - 3} {
		for i := range uint64(100) { // 100 entries of 4 quotients
			f.insert(from+i%4, i)
		}
		for i := range uint64(100) {
			if !f.contains(from+i%4, i) {
				t.Errorf("quotient %d, remainder %d is absent", from+i%4, i)
			}
			if f.contains(from+i%4, i+1) { // it belongs to the next quotient
				t.Errorf("quotient %d, remainder %d is found", from+i%4, i+1)
			}
		}
		for i := range uint64(100) {
			if !f.delete(from+i%4, i) {
				t.Errorf("quotient %d, remainder %d is not there to be deleted", from+i%4, i)
			}
		}
	}
	if before, beyond := touched(f); before+beyond != 0 {
		t.Errorf("all is deleted, and %d words are in use", before+beyond)
	}
}
