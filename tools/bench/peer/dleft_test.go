package peer

import (
	"testing"

	"pgregory.net/rapid"
)

// cell returns a cell of the table.
func cell(f *DLeft, i uint64) uint64 {
	return f.halves.get(i/bucketHalf) >> (int(i%bucketHalf) * f.width) & (1<<f.width - 1)
}

// Every fingerprint has its own place: each subtable permutes the pairs of a bucket and a
// remainder.
func TestDLeftPermutations(t *testing.T) {
	f, err := NewDLeft(37*4*5, 3) // 37 buckets of 5 bytes a subtable
	must(t, err)
	if f.buckets != 37 {
		t.Fatalf("%d buckets, want 37", f.buckets)
	}
	differ := 0
	for i := range uint64(subtables) {
		for r := range uint64(8) {
			owner := make(map[uint64]uint64)
			for bucket := range f.buckets {
				first := f.first(i, bucket, r) * bucketHalf
				if first%bucketCells != 0 || first < i*37*8 || first >= (i+1)*37*8 {
					t.Fatalf("subtable %d begins a bucket at cell %d", i, first)
				}
				if other, ok := owner[first]; ok {
					t.Fatalf("subtable %d, remainder %d: buckets %d and %d are the same", i, r, bucket, other)
				}
				owner[first] = bucket
				if (first/bucketCells-i*37+37-bucket)%37 != (f.first(0, bucket, r)*bucketHalf/bucketCells+37-bucket)%37 {
					differ++
				}
			}
		}
	}
	if differ < 3*8*37*9/10 {
		t.Errorf("the subtables turn the buckets alike: only %d of %d places differ", differ, 3*8*37)
	}
}

// Random histories of a small filter, against a multiset of fingerprints. Every answer is
// exact. An insert is refused only if none of its buckets has a free cell; otherwise it goes to
// the bucket with the fewest cells in use, the leftmost among equal ones.
func TestDLeftModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const r = 2
		buckets := rapid.Uint64Range(1, 5).Draw(t, "buckets")
		f, err := NewDLeft(buckets*subtables*(r+counterBits), r)
		must(t, err)
		used := func(subtable, bucket, r uint64) (n int) {
			for c := range uint64(bucketCells) {
				if cell(f, f.first(subtable, bucket, r)*bucketHalf+c)&3 != 0 {
					n++
				}
			}
			return n
		}
		model := make(map[[2]uint64]int)
		total := 0
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			bucket, remainder := rapid.Uint64Range(0, buckets-1).Draw(t, "bucket"), rapid.Uint64Range(0, 1<<r-1).Draw(t, "remainder")
			key := [2]uint64{bucket, remainder}
			if rapid.IntRange(0, 3).Draw(t, "insert") > 0 {
				// The cells determine what the filter must do.
				var before [subtables]int
				joins, target := false, 0
				for i := range subtables {
					before[i] = used(uint64(i), bucket, remainder)
					if before[i] < before[target] {
						target = i
					}
					for c := range uint64(bucketCells) {
						cell := cell(f, f.first(uint64(i), bucket, remainder)*bucketHalf+c)
						joins = joins || cell>>2 == remainder && (cell&3 == 1 || cell&3 == 2)
					}
				}
				took := f.insert(bucket, remainder)
				if want := joins || before[target] < bucketCells; took != want {
					t.Fatalf("insert of %v beside %v cells: %v", key, before, took)
				}
				if took {
					model[key]++
					total++
				}
				for i := range subtables {
					want := before[i]
					if took && !joins && i == target {
						want++
					}
					if got := used(uint64(i), bucket, remainder); got != want {
						t.Fatalf("insert of %v: subtable %d has %d cells in use after %v", key, i, got, before)
					}
				}
			} else {
				if found := f.delete(bucket, remainder); found != (model[key] > 0) {
					t.Fatalf("delete of %v, of which there are %d: %v", key, model[key], found)
				}
				if model[key] > 0 {
					model[key]--
					total--
				}
			}
			sum := 0
			for c := range buckets * subtables * bucketCells {
				sum += int(cell(f, c) & 3)
			}
			if sum != total {
				t.Fatalf("the counters add up to %d, want %d", sum, total)
			}
			for bucket := range buckets {
				for remainder := range uint64(1 << r) {
					if got, want := f.contains(bucket, remainder), model[[2]uint64{bucket, remainder}] > 0; got != want {
						t.Fatalf("contains %d, %d: %v, want %v", bucket, remainder, got, want)
					}
				}
			}
		}
	})
}

// Four choices fill the table to about 0.9 before the first refusal. A single random choice
// would refuse at about a third.
func TestDLeftLoad(t *testing.T) {
	f, err := NewDLeft(3<<17, 12)
	must(t, err)
	n := uint64(0)
	for f.Insert(n) {
		n++
	}
	load := float64(n) / float64(f.buckets*subtables*bucketCells)
	t.Logf("the first refusal is at a load of %.4f", load)
	if load < 0.88 || load > 0.96 {
		t.Errorf("the first refusal is at a load of %.4f, want 0.88 to 0.96", load)
	}
}
