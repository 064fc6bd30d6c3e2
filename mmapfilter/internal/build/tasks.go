package build

import "math/bits"

const (
	// minTaskBits is the smallest range of lines that a task fills: 64 KiB, which any cache holds.
	minTaskBits = 8 * 65536
	maxTasks    = maxParts // a task has whole partitions
)

// TaskCount returns how many ranges of lines a build divides a region into: the largest power of
// two that leaves each at least minTaskBits.
func TaskCount(lines, lineBits uint64) uint64 {
	high, size := bits.Mul64(lines, lineBits)
	if high > 0 {
		return maxTasks
	}
	if size < 2*minTaskBits {
		return 1
	}
	return min(uint64(1)<<(bits.Len64(size/minTaskBits)-1), maxTasks)
}

// RoundUp rounds a number of lines up to a multiple of TaskCount, and further if lines share
// words, so that each range of lines starts at a range of hashes and at a word. That adds at
// most 0.1 %.
func RoundUp(lines, lineBits uint64) uint64 {
	tasks := TaskCount(lines, lineBits)
	unit := tasks
	for tasks > 1 && unit/tasks*lineBits%64 != 0 {
		unit *= 2
	}
	return (lines + unit - 1) / unit * unit
}
