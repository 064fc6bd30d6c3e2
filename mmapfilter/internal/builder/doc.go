// Package builder makes a sealed filter file from a sequence of keys.
//
// # The steps
//
//	hash     hash the keys, short ones in the goroutine that reads them;
//	         spool the hashes, partitioned by their top bits           all workers
//	count    the distinct keys, if Distinct is set without Capacity    all workers
//	fill     each range of lines, from its partition, sorted           all workers
//	place    items whose home line is full, in rounds                  all workers;
//	         the last few                                              one worker
//	check    count the items in the lines, make the chunk checksums    all workers
//	publish  superblocks, fsync, rename
//
// Sorting the hashes of a partition puts them in the order of their lines and makes the
// order in which they were read, and so the number of workers, irrelevant: the file
// depends on the options and the keys alone.
//
// No key gets lost unnoticed. What the sequence gave is counted before anything is done
// with it; fill compares that with the hashes that came back from the spool, and check
// with the items that are in the file.
//
// # Rounds
//
// Place finds room for the items that found none in fill, by the rules of package place
// but line by line. At the start of a round every such item has come to one of its two
// lines. The lines take the items in, one line after the other. If an item finds no
// room, it or another item of the line is sent to its other line, where it arrives in
// the next round.
//
//	round 0        the items are in their home line, which is full: the line chooses
//	               which items are sent, of those it holds and those that have come
//	rounds 1, 3    an item that finds no room goes back to where it came from
//	round 2        an item that came back takes the room of another one
//	round 4 on     an item that finds no room takes that of another one, as in the paper
//
// An invariant holds from round 1 on: every item away from home has its overflow bits in
// its home line (place, P4). An item that is sent leaves its bits in the line. One that
// goes back leaves none: it was never in that line, and its bits are where it came from.
// Going back keeps few items away from home; in layouts without overflow bits no item
// goes back.
//
// The rounds end when few items are left, or when a round places next to none: then the
// table is full, or many items are of one class. (Rounds 2 and 4 do not count: an item
// that went back comes to a full line.) The items left over go through the search of
// inserts, one by one, and to the stash.
//
// Rounds store in the order of the file. Placing the items one by one would store to
// random lines: a cache miss each; a page read and written if the file is larger than
// memory; and a whole large page written if the system holds the file in those.
//
// A round depends on the items and on the lines as the round before left them, and so
// not on the workers.
//
// # Reading the source
//
// Build (builder.go) has the steps; hashKeys (keys.go) and spool (spool.go) take the
// keys in; fill and check are in builder.go; place, in rounds.go, goes from round to
// round, and victim.go says who leaves a line.
package builder
