// Package compact is the layout Compact. The order of the fingerprints in a bucket carries
// no information, and not keeping it saves log2(b!)/b bits a slot. So Compact takes the
// semi-sorted buckets of the paper (section 4.2) to their limit: a line is one bucket. A
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
// lines are in the same page of memory or the next. Yet the items of crowded neighbouring lines
// reach lines with room. Larger distances do not serve lookups better.
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
// Eager is chosen for these reasons. Pairs wears out. Sweeps needs more than 16 sweeps a turnover for
// as few second lines as eager, and exact needs the counters. Slotbit at a load of 98 % takes more bits
// than eager at 90 %, which reads a third of its second lines. List takes as many bits as eager, since
// the number of a slot has 6 bits, like a quotient; but a lookup has to look for each match in the list.
// (Where f is 18 or more, the number of a slot is a bit shorter; where f is 11 or less, a bit longer.)
//
// The price is half a move for an operation, and a load of at most 95 %. A load of 98 % would save 0.4
// bits a key, but lookups would read more second lines than C4 (package mmapfilter) allows, and items
// would go to the stash.
//
// The table has all seven with 16 overflow bits and f = 13. In a turnover, as many keys are deleted as
// there are, and as many others inserted: those deleted are chosen at random, the oldest, or by a Zipf
// distribution. Second lines are those that lookups of absent keys read; those of sweeps are taken
// halfway between two sweeps. Away is the share of items that are not at home.
//
//	            deleted  load   bits    rate     second lines after 0, 1, 5    away    moves an   most in
//	                            a key            and 50 turnovers, %                   operation  stash
//	pairs       random   90 %   10.7    0.85 %   1.4   7.3   19    36          9.6 %   0.04          0
//	pairs       random   95 %   10.2    1.0  %   3.1   16    32    47          19 %    0.09          0
//	pairs       random   98 %    9.9    1.2  %   5.1   28    46    60          28 %    0.19          0
//	sweeps      random   90 %   10.9    0.57 %   1.5   3.5   3.1   3.4         3.9 %   0.06          0
//	sweeps      random   95 %   10.4    0.60 %   3.6   7.8   8.1   8.4         5.8 %   0.21          0
//	sweeps      random   98 %   10.0    0.62 %   8.2   43    42    44          8.4 %   0.39        389
//	exact       random   90 %   10.9    0.57 %   1.5   3.0   2.8   2.8         3.9 %   0.06          0
//	exact       random   95 %   10.4    0.60 %   3.6   5.7   5.3   5.9         5.9 %   0.20          0
//	exact       random   98 %   10.0    0.62 %   8.2   16    17    19          8.7 %   0.39        387
//	directions  random   90 %   10.9    0.57 %   3.5   6.6   6.0   6.3         4.2 %   0.06          0
//	directions  random   95 %   10.4    0.60 %   8.0   12    11    12          6.2 %   0.21          0
//	directions  random   98 %   10.0    0.62 %   15    16    16    17          7.5 %   0.55        331
//	eager       random   90 %   10.9    0.57 %   3.5   2.5   2.5   2.7         2.2 %   0.24          0
//	eager       random   95 %   10.4    0.60 %   8.0   6.1   6.1   6.2         4.6 %   0.49          0
//	eager       random   98 %   10.0    0.62 %   15    15    16    17          7.5 %   0.78        314
//	slotbit     random   90 %   12.1    0.52 %   3.0   2.7   2.2   2.4         2.4 %   0.24          0
//	slotbit     random   95 %   11.5    0.55 %   5.7   4.5   4.8   5.1         4.8 %   0.41          0
//	slotbit     random   98 %   11.1    0.56 %   8.7   7.7   7.2   7.1         5.9 %   0.58          0
//	list        random   90 %   10.9    0.57 %   3.5   2.5   2.5   2.7         2.2 %   0.24          0
//	list        random   95 %   10.4    0.60 %   8.0   6.1   6.1   6.2         4.6 %   0.49          0
//	list        random   98 %   10.0    0.62 %   15    15    16    17          7.5 %   0.78        314
//	eager       oldest   90 %   10.9    0.57 %   3.5   2.3   2.5   2.6         2.3 %   0.25          0
//	eager       oldest   95 %   10.4    0.60 %   8.0   6.2   6.4   5.9         4.2 %   0.49          0
//	eager       oldest   98 %   10.0    0.62 %   15    15    16    16          7.5 %   0.78        311
//	eager       zipf     90 %   10.9    0.57 %   3.5   2.3   2.2   2.4         2.1 %   0.22          0
//	eager       zipf     95 %   10.4    0.60 %   8.0   5.4   5.0   4.9         3.9 %   0.46          0
//	eager       zipf     98 %   10.0    0.62 %   15    15    14    14          6.7 %   0.48        308
//
// The figures are from the following, in this order, and the last is about the 16 sweeps:
//
//	go run ./tools/simulate -lines 400 -kinds random -loads 90,95,98
//	go run ./tools/simulate -lines 400 -kinds oldest,zipf -loads 90,95,98 -ideas eager
//	go run ./tools/simulate -lines 400 -kinds random -loads 95 -ideas sweeps -sweeps 16
//
// # What guests cost
//
// In a line without guests, which deletes wear out, a key takes fewer bits at the same rate: half a
// bit less at 1 %, and 0.8 bits less at 0.01 %. Build makes lines with guests all the same, even for
// somebody who never deletes. To give guests to a file later would take its keys or kept hashes, since
// the line of a key depends on the number of lines; until then deletes would have to be refused. And
// readers in all languages would have one more layout to know.
package compact
