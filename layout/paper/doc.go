// Package paper has the two layouts of the paper, Packed and SemiSorted (Fan et al.,
// "Cuckoo Filter: Practically Better Than Bloom"). In both a line is one bucket of b
// slots, and buckets follow one another in the region without a gap, wherever
// words and cache lines begin. Bucket i is the bits i·size to (i+1)·size-1 of the
// region; bit j of the region is bit j mod 64 of word j/64. An item may be in any
// slot of its two buckets, and nothing tells which of them has room or had none:
// every lookup reads both, and then the stash.
//
// The stash is read whether anything is in it or not. A flag that says "empty"
// would have to be in every file, and be stored before the first entry and after
// the last one; a group of the stash is one line of 12 KiB that all lookups share.
package paper
