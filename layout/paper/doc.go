// Package paper has the two layouts of the paper, Packed and SemiSorted (Fan et al.,
// "Cuckoo Filter: Practically Better Than Bloom"). In both a line is one bucket of b
// slots, and buckets follow one another without a gap, regardless of where words and cache
// lines begin: bucket i is the bits i·size to (i+1)·size-1 of the region, and bit j of the
// region is bit j mod 64 of word j/64. An item may be in any slot of its two buckets.
// Nothing says which bucket had room when the item came, so every lookup reads both, and
// then the stash.
//
// The stash is read even if it is empty. A flag for an empty stash would be one more word
// to store, before the first entry and after the last; it would save a lookup one cache
// line of a stash of 12 KiB, which all lookups share.
package paper
