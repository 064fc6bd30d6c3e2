package peer

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// decode reads the table without the code under test: once around, from an empty slot on, it
// assigns each run to the next occupied quotient. It returns the count of each fingerprint.
func decode(t interface{ Fatalf(string, ...any) }, f *Quotient) map[[2]uint64]int {
	slots := f.last + 1
	entries := make(map[[2]uint64]int)
	empty := uint64(0)
	for f.slots.get(empty)&metadata != 0 {
		if empty++; empty == slots {
			t.Fatalf("no slot is empty")
		}
	}
	var waiting []uint64 // occupied quotients whose run has not begun
	var owner, last uint64
	for n := uint64(1); n <= slots; n++ {
		i := (empty + n) % slots
		slot := f.slots.get(i)
		if slot&metadata == 0 {
			if len(waiting) > 0 {
				t.Fatalf("slot %d is empty, and quotients %v have no run", i, waiting)
			}
			if slot != 0 {
				t.Fatalf("slot %d is empty, and is %#x", i, slot)
			}
			continue
		}
		if slot&occupied != 0 {
			waiting = append(waiting, i)
		}
		r := slot >> metadataBits
		if slot&continuation == 0 {
			if len(waiting) == 0 {
				t.Fatalf("the run at slot %d has no quotient", i)
			}
			owner, waiting = waiting[0], waiting[1:]
		} else if r < last {
			t.Fatalf("the run of quotient %d is out of order at slot %d", owner, i)
		}
		last = r
		if (slot&shifted != 0) != (i != owner) {
			t.Fatalf("slot %d, of quotient %d, has bits %03b", i, owner, slot&metadata)
		}
		entries[[2]uint64{owner, r}]++
	}
	return entries
}

// Random histories of a small filter, against a multiset. After each step the table is well
// formed and has exactly the expected fingerprints, and every fingerprint gets the right
// answer.
func TestQuotientModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, r := rapid.IntRange(3, 5).Draw(t, "q"), rapid.IntRange(1, 3).Draw(t, "r")
		f, err := NewQuotient(q, r)
		must(t, err)
		// Fewer quotients than slots make longer runs and clusters; the last quotients make
		// them wrap around the end.
		quotients := rapid.IntRange(1, 1<<q).Draw(t, "quotients")
		from := rapid.IntRange(0, 1<<q-1).Draw(t, "from")
		model := make(map[[2]uint64]int)
		total := 0
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			quotient := uint64(from+rapid.IntRange(0, quotients-1).Draw(t, "quotient")) & f.last
			remainder := uint64(rapid.IntRange(0, 1<<r-1).Draw(t, "remainder"))
			key := [2]uint64{quotient, remainder}
			if rapid.IntRange(0, 2).Draw(t, "insert") > 0 {
				took := f.insert(quotient, remainder)
				if took != (total < 9<<q/10) {
					t.Fatalf("insert with %d of %d slots in use: %v", total, 1<<q, took)
				}
				if took {
					model[key]++
					total++
				}
			} else {
				if found := f.delete(quotient, remainder); found != (model[key] > 0) {
					t.Fatalf("delete of %v, of which there are %d: %v", key, model[key], found)
				}
				if model[key] > 0 {
					total--
					if model[key]--; model[key] == 0 {
						delete(model, key)
					}
				}
			}
			if got := decode(t, f); !maps.Equal(got, model) {
				t.Fatalf("the table has %v, want %v", got, model)
			}
			for quotient := range f.last + 1 {
				for remainder := range uint64(1) << r {
					if got, want := f.contains(quotient, remainder), model[[2]uint64{quotient, remainder}] > 0; got != want {
						t.Fatalf("contains %d, %d: %v, want %v", quotient, remainder, got, want)
					}
				}
			}
		}
	})
}

// A filter at 90 %, with clusters as long as they get.
func TestQuotientFull(t *testing.T) {
	f, err := NewQuotient(16, 9)
	must(t, err)
	model := make(map[[2]uint64]int)
	n := uint64(0)
	for ; f.Insert(n); n++ {
		q, r := f.split(n)
		model[[2]uint64{q, r}]++
	}
	if n != 9<<16/10 {
		t.Errorf("full with %d of %d slots", n, 1<<16)
	}
	if !maps.Equal(decode(t, f), model) {
		t.Fatal("the full table has not what was added")
	}
	for key := range n / 2 {
		f.Delete(key)
		q, r := f.split(key)
		if model[[2]uint64{q, r}]--; model[[2]uint64{q, r}] == 0 {
			delete(model, [2]uint64{q, r})
		}
	}
	if !maps.Equal(decode(t, f), model) {
		t.Fatal("after deletes of half, the table has not the other half")
	}
}
