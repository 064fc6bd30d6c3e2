package peer

import "testing"

// A counter that reaches 15 stays there: whatever is deleted, neither the key that brought it
// there nor another key that shares it is lost.
func TestCounterStays(t *testing.T) {
	f, err := NewCounting(64, 10)
	must(t, err)
	const often = 1
	for range 20 {
		f.Insert(often)
	}
	for key := uint64(2); key < 10; key++ {
		f.Insert(key)
	}
	for i := range 20 {
		if !f.Delete(often) {
			t.Fatalf("delete %d of 20 finds nothing", i)
		}
		for key := uint64(1); key < 10; key++ {
			if !f.Contains(key) {
				t.Fatalf("after %d deletes of another key, key %d is absent", i+1, key)
			}
		}
	}
	for _, w := range f.words {
		for ; w != 0; w >>= 4 {
			if w&15 == 15 {
				return
			}
		}
	}
	t.Error("20 copies brought no counter to 15")
}

// Every insert adds k, every delete subtracts k: no counter overflows into its neighbour.
func TestCountersAddUp(t *testing.T) {
	f, err := NewCounting(3<<17, 3<<17*2/13)
	must(t, err)
	sum := func() (n int) {
		for _, w := range f.words {
			for ; w != 0; w >>= 4 {
				n += int(w & 15)
			}
		}
		return n
	}
	for key := range uint64(50_000) {
		f.Insert(key)
	}
	if got, want := sum(), 50_000*f.k; got != want {
		t.Errorf("the counters add up to %d, want %d", got, want)
	}
	for key := range uint64(20_000) {
		f.Delete(key)
	}
	if got, want := sum(), 30_000*f.k; got != want {
		t.Errorf("after deletes the counters add up to %d, want %d", got, want)
	}
}

// Deleting a key that was never added, and two of whose counters are the same one with value 1,
// does not take that counter below 0.
func TestCounterStaysAboveZero(t *testing.T) {
	f, err := NewCounting(8, 1) // 16 counters, of which a key has 11
	must(t, err)
	for key := range uint64(1000) {
		clear(f.words)
		f.words[0] = 0x1111111111111111
		if !f.Delete(key) {
			t.Fatalf("key %d has a counter that is 0", key)
		}
		for w := f.words[0]; w != 0; w >>= 4 {
			if w&15 > 1 {
				t.Fatalf("key %d left %#016x", key, f.words[0])
			}
		}
	}
}
