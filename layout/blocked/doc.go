// Package blocked is the layout Blocked. A line is 8 buckets, and a bucket is one word:
//
//	63    60 59                                            0
//	┌───────┬─────────┬───────────────┬─────────┬──────────┐
//	│ o3…o0 │ (zero)  │ slot b-1      │   …     │ slot 0   │   b = ⌊60/f⌋, f bits a slot
//	└───────┴─────────┴───────────────┴─────────┴──────────┘
//
// An item has two buckets in its home line, B and B xor d(fp), and the same two in its
// alternate line. Unless it is in its home line, overflow bit o(fp, B) of each of its two
// words there is set, and a lookup goes on to the alternate line only if both are.
// Overflow bits are never cleared.
//
// With m = fp·MixFirst mod 2^64:
//
//	d(fp)    = 1 + ⌊7·(bits 32-47 of m) / 2^16⌋       1 to 7, so the two buckets differ
//	o(fp, B) = bits 48+2B and 49+2B of m              a number from 0 to 3 for each bucket
//
// The number of the bit depends on the bucket as well as on the fingerprint. With one
// number for both buckets, an absent key with the bucket pair of an overflowed item would
// go on one time in 4; as it is, it goes on one time in 16.
//
// # When to use it
//
// Compact is the default. Blocked is for filters that
//
//	fit the caches of a processor        a look reads two words of one line, and counts nothing
//	are inserted into more than read     a change is one word, not most of a line: less log,
//	                                     and a shorter insert
//	are read in other languages          a lookup is a dozen lines of code
//	ask for less than 5 in a million     its longest fingerprints are longer
//
// and that are rebuilt, or filled and kept: overflow bits of items that have gone stay set, so
// under deletes and inserts more and more lookups read a second line, and the rate rises.
//
// In tools/bench, "bench lookup" and "bench insert" measure what is gained, and "bench churn" what
// deletes do.
package blocked
