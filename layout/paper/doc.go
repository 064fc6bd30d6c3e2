// Package paper has the two layouts of the paper, Packed and SemiSorted (Fan et al., "Cuckoo
// Filter: Practically Better Than Bloom"). In both a line is one bucket of b slots, and buckets
// follow one another without a gap, regardless of where words and cache lines begin: bucket i
// is the bits i·size to (i+1)·size-1 of the region, and bit j of the region is bit j mod 64 of
// word j/64. An item may be in any slot of its two buckets. No bit says which of the two has
// the item, so a lookup that finds nothing has read both buckets and the stash.
//
// Such a lookup reads the stash even if it is empty. A flag for an empty stash would be one
// more word to store, before the first entry and after the last. It would save a lookup only
// one cache line, of a stash of 12 KiB that all lookups share.
package paper
