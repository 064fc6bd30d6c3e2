package build

import (
	"math/bits"
	"slices"
)

// sortHashes sorts hashes whose top prefix bits are equal. It returns them in the memory of
// hashes or of tmp, which must be as long.
//
// Hashes are uniform, so one pass that distributes them by the bits after the prefix, into about one run
// for every 3 to 6 hashes, leaves short runs. A sorting network sorts the runs, since the processor
// would mispredict the branches of an insertion sort.
func sortHashes(hashes, tmp []uint64, prefix uint) []uint64 {
	const (
		perRun       = 6 // at most, on average
		atOnce       = 8 // nearly every run is at most this long
		insertionMax = 32
		maxDigits    = 18 // the counts of 2^18 runs take 2 MiB and stay in a cache
	)
	if len(hashes) <= insertionMax {
		insertionSort(hashes)
		return hashes
	}
	digits := min(uint(bits.Len(uint(len(hashes)/perRun))), 64-prefix, maxDigits)
	if digits == 0 {
		return hashes
	}
	shift := 64 - prefix - digits
	mask := uint64(1)<<digits - 1
	starts, tmp := make([]int, mask+2), tmp[:len(hashes)]
	for _, h := range hashes {
		starts[h>>shift&mask+1]++
	}
	for i := range mask {
		starts[i+1] += starts[i]
	}
	for _, h := range hashes {
		digit := h >> shift & mask
		tmp[starts[digit]] = h
		starts[digit]++
	}
	// starts[i] is now the end of run i. Each step sorts eight hashes from the start of a run. This is
	// safe, because no hash after the run is less than a hash in it, and because other whole runs
	// among the eight are then sorted too.
	start, done := 0, 0
	for _, end := range starts[:mask+1] {
		switch run := tmp[start:end]; {
		case end <= done:
		case len(run) <= atOnce && start+atOnce <= len(tmp):
			sortEight((*[8]uint64)(tmp[start:]))
			done = start + atOnce
		case len(run) <= insertionMax:
			insertionSort(run)
		default:
			slices.Sort(run)
		}
		start = end
	}
	return tmp
}

func insertionSort(a []uint64) {
	for i := 1; i < len(a); i++ {
		x := a[i]
		j := i
		for ; j > 0 && a[j-1] > x; j-- {
			a[j] = a[j-1]
		}
		a[j] = x
	}
}

// sortEight is Batcher's odd-even merge sort (Knuth, volume 3, section 5.3.4): 19
// comparisons in 6 steps, branch-free.
func sortEight(a *[8]uint64) {
	a0, a1 := order(a[0], a[1])
	a2, a3 := order(a[2], a[3])
	a4, a5 := order(a[4], a[5])
	a6, a7 := order(a[6], a[7])

	a0, a2 = order(a0, a2)
	a1, a3 = order(a1, a3)
	a4, a6 = order(a4, a6)
	a5, a7 = order(a5, a7)

	a1, a2 = order(a1, a2)
	a5, a6 = order(a5, a6)
	a0, a4 = order(a0, a4)
	a3, a7 = order(a3, a7)

	a1, a5 = order(a1, a5)
	a2, a6 = order(a2, a6)

	a2, a4 = order(a2, a4)
	a3, a5 = order(a3, a5)

	a1, a2 = order(a1, a2)
	a3, a4 = order(a3, a4)
	a5, a6 = order(a5, a6)
	*a = [8]uint64{a0, a1, a2, a3, a4, a5, a6, a7}
}

func order(x, y uint64) (low, high uint64) { return min(x, y), max(x, y) }
