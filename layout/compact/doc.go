// Package compact is the layout Compact. The order of the fingerprints in a bucket carries
// no information, and not keeping it saves log2(b!)/b bits a slot. So Compact takes the
// semi-sorted buckets of the paper (section 4.2) to their end: a line is one bucket. A
// fingerprint is a quotient, its 6 high bits, and a remainder, its r low ones; of the
// quotients only the counts are kept, as in a quotient filter (Bender et al., "Don't
// Thrash", 2012; Pandey et al., "Vector Quotient Filters", 2021, have a line of 512 bits).
//
//	bit 511        496      492                             65+b             0
//	    ┌──────────┬────────┬────────┬──────┬─────┬───────────┬───────────────┐
//	    │ overflow │ number │ guests │ zero │  …  │ remainder │ counts of 64  │
//	    │ bits     │ of     │ 0, 1,  │ bits │     │ of slot 0 │ quotients     │
//	    │ 15…0     │ guests │ 2, …   │      │     │           │               │
//	    └──────────┴────────┴────────┴──────┴─────┴───────────┴───────────────┘
//
// The counts are in unary, from bit 0 on: for each quotient, from 0 to 63, a 0 and then a
// 1 for each item that has it. n items take n + 64 bits, and the b + 1 - n bits after them
// are 0. At least one of these follows, which ends the items of the last quotient as the
// next quotient's 0 ends those of any other. Item i, the one of set bit number i, has
// remainder i; items are in rising order of their fingerprints. The counts say which slots
// are in use, so 0 is a fingerprint like any other.
//
// # Guests
//
// A filter that is deleted from must know who is away from home, or its overflow bits can
// never be cleared: after a few turnovers they are all set, and every lookup reads a second
// line. So a line keeps its guests apart from the items at home. A guest takes 6 bits more,
// since it is kept with its quotient. It pays for some of them: an item at home matches only
// keys of its line, a guest only those of its own home, so no item matches twice.
//
// The other line of an item follows from the low 4 bits of its fingerprint, its direction,
// and each direction has an overflow bit of its own. All items of a home that are away in one
// direction are therefore in one line, the only one that has guests of theirs. When one of them
// comes home or is deleted, that line says at once whether others remain; if not, the bit is
// cleared. No count is kept, and nothing has to be swept.
//
// The items at home, the guests and the overflow bits determine the image of a line, and an
// empty line is 0.
//
// # Directions
//
// The other lines are Fibonacci numbers of lines away, from 1 to 1,597: half of them are in the
// same page of memory or the next, and yet a crowded stretch of a table has room within reach.
// Further ones serve a lookup no better.
//
// # What was chosen, and from what
//
// Ideas of how a line may know who is away, each with 16 overflow bits and f = 13, after
// turnovers of random keys; second lines are those that lookups of absent keys read:
//
//	            load   bits    rate     second lines after 0, 1, 5     away    moves of
//	                   a key            and 50 turnovers, %                    an operation
//	pairs       90 %   10.7   0.85 %    1.4    7.4   19     36          9.6 %    0.04
//	pairs       98 %    9.9   1.2  %    5.1   28     46     60         29   %    0.19
//	sweeps      95 %   10.4   0.60 %    3.6    6.3    6.0    6.7        5.9 %    0.21
//	directions  95 %   10.4   0.60 %    8.0   12     11     12          6.2 %    0.21
//	eager       90 %   10.9   0.57 %    3.5    2.6    2.5    2.7        2.3 %    0.24
//	eager       95 %   10.4   0.60 %    8.0    6.1    6.1    6.3        4.6 %    0.49
//
// Pairs is what this layout did at first: two bits for each item that left, and nobody knew when
// to clear them. Sweeps makes them anew, four times a turnover, from the guests of all lines,
// which it keeps. Directions has one bit of 16 for each other line, and clears it at once. Eager
// is the same, and a delete that makes room brings a guest home, one that is alone in its
// direction if it can. It is what was chosen: as small and as good as sweeps, and nothing has to
// run in the background, or to be remembered across a crash. The price is half a move for an operation. It
// prints this and more (all kinds of turnovers, other loads and numbers of bits):
//
//	go run ./tools/simulate -lines 400 -loads 80,90,95
package compact
