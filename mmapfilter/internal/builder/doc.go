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
// Sorting the hashes of a partition puts them in the order of their lines. It also makes the
// order in which they were read, and so the number of workers, irrelevant: the file depends only
// on the options and the keys.
//
// No key gets lost unnoticed. Build counts the keys of the sequence before it does anything with
// them; fill compares that count with the hashes that came back from the spool, and check with
// the items in the file.
//
// # Rounds
//
// Place finds room for the items that found none in fill, by the rules of package place but line
// by line. At the start of a round every such item has arrived at one of its two lines. The
// lines take in their items, one line after the other. If an item finds no room, the line sends
// that item or another one to its other line, where it arrives in the next round.
//
//	round 0        the items are in their home line, which is full: the line chooses
//	               which items are sent, of those it holds and those that have come
//	rounds 1, 3    an item that finds no room goes back to where it came from
//	round 2        an item that came back takes the room of another one
//	round 4 on     an item that finds no room takes that of another one, as in the paper
//
// An invariant holds from round 1 on: every item away from home has its overflow bits in its
// home line (place, P4). An item that is sent leaves its bits in the line. One that goes back
// leaves none: it was never in that line, and its bits are where it came from. Going back keeps
// few items away from home; in layouts without overflow bits no item goes back.
//
// The rounds end when few items are left, or when a round places next to none: then the table is
// full, or many items are of one class. (Rounds 2 and 4 do not count: items that went back
// arrive at a full line.) The remaining items go through the search of inserts, one by one, and
// to the stash.
//
// Rounds store in the order of the file. Placing the items one by one would store to random
// lines, and each store would cost a cache miss; a page read and written if the file is larger
// than memory; and a whole large page written if the system holds the file in large pages.
//
// A round depends only on the items and on the lines as the previous round left them, and so not
// on the workers.
//
// # Kept hashes
//
// A build from kept hashes has another first step. The bases of the files are sorted, and fill reads
// them where they are. The operations of the tails are in the order of their commits: all workers read
// them, in blocks of pages, and spool them, each in a word. Fill sorts those of its partitions, merges
// them with the items of the bases, and takes away an item for each delete. Which block was read when
// does not matter, since the times of the items say which of them is the oldest.
//
// # Reading the source
//
// Build (builder.go) has the steps; ofKeys (keys.go) and spool (spool.go) take in the keys, or OpenKept
// (kept.go), tail.go and merge.go what filters have kept;
// fill and check are in builder.go; place, in rounds.go, runs the rounds, and victim.go chooses
// the items that leave a line.
package builder
