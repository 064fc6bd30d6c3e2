// Package compact is the layout Compact. The order of the fingerprints in a bucket carries
// no information, and leaving this information out saves log2(b!)/b bits a slot. So Compact
// takes the semi-sorted buckets of the paper (section 4.2) to their limit: a line is one
// bucket. A fingerprint is a quotient, one of Q, and a remainder of r bits; for quotients,
// a line keeps only how many of its items have each, as in a quotient filter (Bender et
// al., "Don't Thrash", 2012; Pandey et al., "Vector Quotient Filters", 2021, have a line of
// 512 bits).
//
//	bit 511        496      492                            1+Q+b             0
//	    ┌──────────┬────────┬────────┬──────┬─────┬───────────┬───────────────┐
//	    │ overflow │ number │ guests │ zero │  …  │ remainder │ counts of Q   │
//	    │ bits     │ of     │ 0, 1,  │ bits │     │ of slot 0 │ quotients     │
//	    │ 15…0     │ guests │ 2, …   │      │     │           │               │
//	    └──────────┴────────┴────────┴──────┴─────┴───────────┴───────────────┘
//
// The counts are in unary, from bit 0 on: for each quotient, from 0 to Q - 1, a 0 and then a
// 1 for each item that has it. n items take n + Q bits. The b + 1 - n bits after them, of
// which there is at least one, are 0, so a 0 ends the items of every quotient. The set bit
// with number i stands for item i, whose remainder is in slot i; the items are in ascending
// order of their fingerprints. The counts say which slots are in use, so 0 is a fingerprint
// like any other.
//
// # Quotients
//
// Q need not be a power of two, so there are Q·2^r fingerprints for any Q, and a filter has the rate
// that it was asked for, not the next lower power of two. A lookup asks for a pair of a home line and a
// fingerprint. An item matches one of these pairs and no other, whichever line it is in. So the rate is
// exactly the share of the pairs that items match.
//
// With more quotients, remainders are shorter but the counts take more bits. Q is at most 64: then
// the counts fit into two words, which makes batches fast, and a word has a bit for each quotient. Q
// is at least 16: fewer quotients never take less space at the same rate.
//
// # Guests
//
// A filter must know which items are away from home, or it can never clear an overflow bit:
// after deletes and inserts all are set, and every lookup reads a second line. So a line
// keeps its guests apart from the items at home. A guest is kept with its quotient, and
// takes ⌈log2 Q⌉ bits more. In return no item matches keys of two home lines: an item at
// home matches only keys of its line, and a guest matches only keys of its own home line.
//
// The other line of an item follows from the low 4 bits of its remainder, its direction,
// and each direction has an overflow bit of its own. So all items that have left a home line
// in one direction are in one other line, and all guests that have come to that line in this
// direction are from this home line. When one of these guests comes home or is deleted, the
// line shows whether others remain. If none remains, the bit is cleared. This needs no
// counters, and no sweep through the table.
//
// The items at home, the guests and the overflow bits determine the image of a line, and an
// empty line is 0.
//
// # Directions
//
// The distances to the other lines are the Fibonacci numbers from 1 to 1,597. Half of the other
// lines are in the same page of memory or the next. Yet the items of crowded neighbouring lines
// reach lines with room. Larger distances make no difference to lookups.
//
// # Alternatives
//
// There are at least seven ways to know which items are away. This layout is the one called eager:
//
//	pairs       sets two overflow bits for each item that leaves, and cannot tell when to clear them
//	sweeps      keeps guests apart, and makes the same bits anew from them, four times a turnover
//	exact       clears each of these bits as soon as no item needs it; for this it has 16 counters a
//	            line outside of the table, made when a file is opened
//	directions  has one bit for each of the 16 other lines, and clears it at once
//	eager       is directions, and a delete that makes room brings a guest home, if possible one that
//	            is alone in its direction
//	slotbit     is eager, but guests are among the items at home: each slot has a bit that says whether
//	            its item is a guest
//	list        is eager, but guests are among the items at home: a list has their slots
//
// Eager is chosen for these reasons. Pairs wears out. Sweeps needs about 16 sweeps a turnover for as
// few second lines as eager, and exact needs the counters. Slotbit at a load of 98 % takes more bits
// than eager at 90 %, which reads a third of its second lines. List takes as many bits as eager, since
// the number of a slot has about as many bits as a quotient; but a lookup has to look for each match in
// the list.
//
// The price is half a move for an operation, and a load of at most 95 %. A load of 98 % would save 0.4
// bits a key, but lookups would read more second lines than C4 (package mmapfilter) allows, and items
// would go to the stash.
//
// # What guests cost
//
// A layout without guests is worn out by deletes, but a key takes fewer bits at the same rate: half
// a bit less at 1 %, and 0.8 bits less at 0.01 %. Build makes lines with guests all the same, even
// for somebody who never deletes. Adding guests later would require the keys or kept hashes, since
// the line of a key depends on the number of lines; until then deletes would have to be refused. And
// readers in all languages would have one more layout to know.
package compact
