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
// order in which they were spooled, and so the number of workers, irrelevant: the file depends
// only on the options and the keys.
//
// No key is lost unnoticed. Build counts the keys of the sequence before it does anything with
// them; fill compares that count with the hashes that it reads back from the spool, and check
// compares it with the items in the file.
//
// # Rounds
//
// Place finds room for the items that found none in fill, by the rules of package place but line
// by line. At the start of a round every such item has arrived at one of its two lines. The
// lines take their arrivals in, one line after the other. If an arrival finds no room, the line
// sends it, or an item in its stead, to the other line of that item, where it arrives in the
// next round.
//
//	round 0        the items arrive at their home lines, which are full: a line chooses
//	               which items it sends, of those that it holds and the arrivals
//	rounds 1, 3    an item that finds no room goes back to where it came from
//	round 2        an item that came back takes the room of another one
//	round 4 on     an item that finds no room takes that of another one, as in the paper
//
// An invariant holds from round 1 on: every item away from home has its overflow bits in its
// home line (place, P4). An item that is sent leaves its bits in the line. One that goes back
// leaves none: it was never in that line, and its bits are where it came from. Going back keeps
// the number of items away from home low (place, P10); in layouts without overflow bits no item goes
// back.
//
// The rounds end when few items are left, or when a round after round 4 places next to none: then
// the table is full, or many items have the same lines and fingerprint. (Rounds 2 and 4 may place
// few in any table: items that went back arrive at full lines.) The remaining items go through the
// search of inserts, one by one, and to the stash.
//
// Rounds store in the order of the file. Placing the items one by one would store to random
// lines. Each store would cost a cache miss; if the file is larger than memory, also a page read
// and written; and if the system holds the file in large pages, all of a large page written.
//
// A round depends only on the items and on the lines as the previous round left them, and so not
// on the number of workers.
//
// # Kept hashes
//
// A build from kept hashes has another first step. The base of each file is sorted, and fill reads
// it as it is. The operations of the tails are in the order of their commits: all workers read
// them, in stretches of pages, and spool each operation as two words, of which one has its number in
// the history. So the order in which stretches are read does not matter. Fill sorts the operations of
// its partitions, merges them with the items of the bases, and does those of each hash in their order,
// file by file (K7).
//
// # Reading the source
//
// build and fromSource (build.go) run the steps. The keys come in through ofKeys (keys.go) and the
// spool (spool.go), kept hashes through OpenKept (kept.go), tail.go and merge.go. Then come fill.go,
// rounds.go, in which place runs the rounds, and check.go; victim.go chooses the items that leave a
// line. builder.go has what the steps share.
package builder
