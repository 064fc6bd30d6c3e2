// Package paper has the two layouts of the paper, Packed and SemiSorted (Fan et al.,
// "Cuckoo Filter: Practically Better Than Bloom"). In both a line is one bucket of b
// slots, and buckets follow one another without a gap, regardless of where words and cache
// lines begin: bucket i is the bits i·size to (i+1)·size-1 of the region, and bit j of the
// region is bit j mod 64 of word j/64. An item may be in any slot of its two buckets, and
// nothing says which of them has, or had, room: every lookup reads both, and then the
// stash.
//
// The stash is read even if it is empty. A flag that says so would have to be in every
// file, and be stored before the first entry and after the last; a group of the stash is
// one cache line out of 12 KiB that all lookups share.
package paper
