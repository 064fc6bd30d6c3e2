// Package compact is the layout Compact. The order of the fingerprints in a bucket carries
// no information, and not keeping it saves log2(b!)/b bits a slot. So Compact takes the
// semi-sorted buckets of the paper (section 4.2) to their end: a line is one bucket. A
// fingerprint is a quotient, its 6 high bits, and a remainder, its r low ones; of the
// quotients only the counts are kept, as in a quotient filter (Bender et al., "Don't
// Thrash", 2012; Pandey et al., "Vector Quotient Filters", 2021, have a line of 512 bits).
//
//	bit 511        512-v            65+b+b·r        65+b             0
//	    ┌────────────┬────────────────┬─────┬─────────┬───────────────┐
//	    │ overflow   │ remainder b-1  │  …  │ rem. 0  │ counts of 64  │
//	    │ bits v-1…0 │                │     │         │ quotients     │
//	    └────────────┴────────────────┴─────┴─────────┴───────────────┘
//
// The counts are in unary, from bit 0 on: for each quotient, from 0 to 63, a 0 and then a
// 1 for each item that has it. n items take n + 64 bits, and the b + 1 - n bits after them
// are 0. At least one of these follows, which ends the items of the last quotient as the
// next quotient's 0 ends those of any other. Item i, the one of set bit number i, has
// remainder i; items are in rising order of their fingerprints, and the remainders after
// the last are 0. So the items of a line and its overflow bits determine its image, and an
// empty line is 0. The counts say which slots are in use, so 0 is a fingerprint like any
// other.
//
// An item may be in any slot of its home line, or else of its alternate line. If it is
// not in a line that it belongs to, two overflow bits are set there, and a lookup goes on
// only if both are. They are never cleared. With i = fp mod 128, they are bits o and o':
//
//	o  = i mod v
//	o' = (o + 1 + ⌊i/v⌋) mod v
//
// These are 128 pairs, some of them twice if v is small, and every bit is in about as many
// of them. They stand in a table, so a lookup needs five instructions for them; a product
// with the fingerprint would need five times as many.
package compact
