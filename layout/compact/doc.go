// Package compact is the layout Compact. The order of the fingerprints in a bucket tells nothing, and
// to keep none saves log2(b!)/b bits a slot; so the semi-sorted buckets of the paper
// (section 4.2) are taken to their end, where a line is one bucket. A fingerprint is
// a quotient, its 6 high bits, and a remainder, its r low ones; of the quotients only
// the counts are kept, as in a quotient filter (Bender et al., "Don't Thrash", 2012,
// and Pandey et al., "Vector Quotient Filters", 2021, who have a line of 512 bits).
//
//	bit 511        512-v            65+b+b·r        65+b             0
//	    ┌────────────┬────────────────┬─────┬─────────┬───────────────┐
//	    │ overflow   │ remainder b-1  │  …  │ rem. 0  │ counts of 64  │
//	    │ bits v-1…0 │                │     │         │ quotients     │
//	    └────────────┴────────────────┴─────┴─────────┴───────────────┘
//
// The counts are in unary, from bit 0 on: for each quotient, from 0 to 63, a bit 0 and
// then a bit 1 for each item that has it. With n items these are n + 64 bits, and the
// b + 1 - n bits after them are 0: there is one at least, which ends the items of the
// last quotient as the bit 0 of the next one ends those of any other. Item i, the one of
// bit 1 number i, has remainder i; the items are in rising order of their fingerprints,
// and the remainders after the last are 0. So what is in a line, and which overflow bits
// are set, gives its image, and an empty line is 0. The counts tell which slots are in
// use: 0 is a fingerprint like any other.
//
// An item may stand in any slot of its home line, else of its alternate line. When it
// does not stand in a line that it belongs to, two overflow bits are set there, and a
// lookup goes on only where both are. They are never cleared. With i = fp mod 128, they
// are number o and o':
//
//	o  = i mod v
//	o' = (o + 1 + ⌊i/v⌋) mod v
//
// These are 128 pairs, some of them twice where v is small, in which every bit is about as
// often; the fingerprints of a line have any low bits. A table has them all: of a lookup they
// are five instructions. (Chosen by a product with the fingerprint they were 26, of 127,
// and a lookup out of the cache takes as long as its instructions are many.)
package compact
