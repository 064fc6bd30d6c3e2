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
// 1 for each item that has it. n items take n + 64 bits. The b + 1 - n bits after them, of
// which there is at least one, are 0, so a 0 ends the items of every quotient. Set bit
// number i stands for item i, whose remainder is in slot i; the items are in ascending
// order of their fingerprints. The counts say which slots are in use, so 0 is a
// fingerprint like any other.
//
// # Guests
//
// A filter must know which items are away from home, or it can never clear an overflow bit:
// after deletes and inserts all are set, and every lookup reads a second line. So a line
// keeps its guests apart from the items at home. A guest is kept with its quotient, and
// takes 6 bits more. In return no item matches the keys of two homes: an item at home
// matches only keys of its line, and a guest only those of its own home.
//
// The other line of an item follows from the low 4 bits of its fingerprint, its direction,
// and each direction has an overflow bit of its own. So all items of a home that are away in
// one direction are in one line, and all guests that have come to that line in this direction
// are of that home. When one of them comes home or is deleted, the line shows whether others
// remain; if none does, the bit is cleared. No count is kept, and no sweep is needed.
//
// The items at home, the guests and the overflow bits determine the image of a line, and an
// empty line is 0.
//
// # Directions
//
// The distances to the other lines are the Fibonacci numbers from 1 to 1,597. Half of the other
// lines are in the same page of memory or the next, and yet a crowded stretch of a table has room
// within reach. Larger distances do not serve lookups better.
//
// # Alternatives
//
// Four ways to know which items are away, each with 16 overflow bits and f = 13, after turnovers
// of random keys. Second lines are those that lookups of absent keys read:
//
//	            load   bits    rate     second lines after 0, 1, 5     away    moves of
//	                   a key            and 50 turnovers, %                    an operation
//	pairs       90 %   10.7   0.85 %    1.4    7.4   19     36          9.6 %    0.04
//	pairs       98 %    9.9   1.2  %    5.1   28     46     60         29   %    0.19
//	sweeps      95 %   10.4   0.60 %    3.6    6.3    6.0    6.7        5.9 %    0.21
//	directions  95 %   10.4   0.60 %    8.0   12     11     12          6.2 %    0.21
//	eager       90 %   10.9   0.57 %    3.5    2.6    2.5    2.7        2.3 %    0.24
//	eager       95 %   10.4   0.60 %    8.0    6.1    6.1    6.3        4.6 %    0.49
//	eager       98 %   10.0   0.62 %   15     15     16     17          7.5 %    0.78
//
// Pairs sets two bits for each item that leaves, and cannot tell when to clear them. Sweeps
// keeps guests apart, and makes the same bits anew from them four times a turnover. Directions
// has one bit for each of the 16 other lines, and clears it at once. Eager is directions, and a
// delete that makes room brings a guest home, if possible one that is alone in its direction.
//
// This layout is eager: as small and as good as sweeps, without work in the background that a
// crash may interrupt. The price is half a move for an operation. A load of 98 % would save 0.4
// bits a key, but more lookups would read a second line than C4 (package mmapfilter) allows, and
// items would go to the stash. The figures, and others, are from the following; pairs take many
// minutes.
//
//	go run ./tools/simulate -lines 400 -kinds random -loads 90,95,98
package compact
