// Package verify reads a whole file, which nobody writes to, and checks every rule of its format
// (package layout).
//
// # What is checked
//
//	superblocks   of a sealed file: that all copies agree (what one of them says, F1 to F7, is checked
//	              when the file is opened)
//	checksums     of a sealed file: F8 and F9. With these, a change of any byte is found.
//	lines         F10
//	stash         F12, and the padding behind the last line
//	count         F13: lines and stash hold as many items as the superblock says
//	hashes        K6: if the filter keeps its hashes, the table has the items to which the base and the
//	              operations lead, and no others; and each key that the history means (K7) is found, unless
//	              a stray delete has taken its item
//
// The first three look at the whole file. The rest is checked only if they find no damage, and the
// hashes only if nothing else does. So one changed byte is one damage.
//
// Two multisets of items, that of the table and that of the hashes, are compared by sums of a mix of
// each item: neither has to be sorted by the other, and no memory is needed for them.
//
// Lines are read in pieces, by several goroutines (package sweep), in the order of the file. A fault in
// the mapping is damage like any other: the file was cut short, or its disk failed.
package verify
