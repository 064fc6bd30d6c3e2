package mmapfilter

import (
	"math/bits"
	"slices"
)

// sortHashes sorts hashes whose top prefix bits are equal, with the help of
// tmp, which is as long, and gives the sorted ones in either of the two.
//
// Hashes are uniform, so one pass that deals them out by the bits after the
// prefix, into about one place for every 8, leaves short runs to sort by
// insertion. (slices.Sort takes 4 times as long on a million hashes.)
func sortHashes(hashes, tmp []uint64, prefix uint) []uint64 {
	const perRun, insertionMax = 8, 32
	if len(hashes) <= insertionMax {
		insertionSort(hashes)
		return hashes
	}
	digits := min(uint(bits.Len(uint(len(hashes)/perRun))), 64-prefix, 18)
	if digits == 0 {
		return hashes
	}
	shift := 64 - prefix - digits
	mask := uint64(1)<<digits - 1
	starts := make([]int, mask+2)
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
	// starts[i] is now where run i ends.
	start := 0
	for _, end := range starts[:mask+1] {
		if run := tmp[start:end]; len(run) <= insertionMax {
			insertionSort(run)
		} else {
			slices.Sort(run)
		}
		start = end
	}
	return tmp[:len(hashes)]
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
