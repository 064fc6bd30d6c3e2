package build

import (
	"math/bits"
	"slices"
)

// sortHashes sorts hashes whose top prefix bits are equal. It returns them in the memory of
// hashes or of tmp, which must be as long.
//
// Hashes are uniform, so one pass that distributes them by the bits after the prefix, into about
// one run for every 3 to 6, leaves short runs.
func sortHashes(hashes, tmp []uint64, prefix uint) []uint64 {
	const (
		perRun       = 6 // at most, on average
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
	start := 0
	for _, end := range starts[:mask+1] { // starts[i] is now the end of run i
		if run := tmp[start:end]; len(run) <= insertionMax {
			insertionSort(run)
		} else {
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
