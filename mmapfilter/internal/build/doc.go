// Package build works out how large a filter must be, builds a sealed filter file from keys or
// hashes, and checks whole files.
//
// # The size
//
// A Wish says what filter the caller wants. A candidate is a pair of parameters of the layout, with
// the highest design load at which the predicted rate is low enough and the stash has room for the
// items that find no slot. The smallest candidate is chosen; of equally small candidates, the one
// with the fewest fingerprints, whose rate is nearest to the requested rate. If the Wish has an f,
// the design load is the usual one, whatever the rate.
//
// A prediction (layout.Predict) is exact on average. A rate that is stored in a file has 4 digits, since
// the last bits of a prediction depend on the machine.
//
// A filter takes keys beyond its capacity, but its rate rises with them. The Limit is the number of
// keys at which the rate is OverRate times the requested rate (C4). Most filters run out of slots
// before that.
//
// # The steps of a build
//
//	hash     hash the keys, in the goroutine that reads them;
//	         spool the hashes, partitioned by their top bits           all workers
//	count    the distinct keys, if Distinct is set without Capacity    all workers
//	fill     each range of lines, from its partition, sorted           all workers
//	place    the items that found no room in their range               one worker
//	check    count the items in the lines, compute the checksums       all workers
//	publish  superblocks, fsync, rename
//
// Sorting the hashes of a partition puts them in the order of their lines. It also removes any
// effect of the order in which they were spooled, and so of the number of workers: the file depends
// only on the options and the keys.
//
// No key is lost unnoticed. Build counts the keys of the sequence before it does anything with
// them; fill compares that count with the hashes that it reads back from the spool, and check
// compares it with the items in the file.
//
// # Ranges
//
// A range of lines is filled by one worker, which has all its items before it writes a line. So it knows
// how much room each line has beside the items at home there. In a layout whose lines know their guests,
// a line with more items than slots sends the rest to other lines of its range (place, P9). Few items
// find no room. One worker inserts them at the end, in the whole table. Most of them have their home
// line near the end of a range, and their other line in the next range; or the table is full, or many
// items have the same lines and fingerprint.
//
// In the layouts of the paper, the other line of an item is anywhere. So all items that find their home
// line full are inserted at the end.
//
// A range depends only on its items, and not on the number of workers. Workers store in the order of
// the file. Inserting items in the order of the keys would store to random lines. Each store
// would cost a cache miss; if the file is larger than memory, also the read and the write of a page; and
// if the system holds the file in large pages, the write of a large page.
//
// # Kept hashes
//
// A build from kept hashes has another first step. The base of each file is sorted already, and
// fill reads it directly. The operations of the tails are in the order of their commits. All
// workers read them, each a range of pages at a time, and spool each operation as two words, one of
// which has the number of the operation in the history. So the order in which the ranges are read
// does not matter. Fill sorts the operations of a partition, merges them with the items of the
// bases, and applies the operations of each hash in order, file by file (K7).
//
// # What Verify checks
//
//	superblocks   of a sealed file: that all copies agree (the content of a copy, F1 to F7, is
//	              checked when the file is opened)
//	checksums     of a sealed file: F8 and F9. With these, a change of any byte is found.
//	lines         F10
//	stash         F12, and the padding behind the last line
//	count         F13: lines and stash hold as many items as the superblock says
//	hashes        K6: if the filter keeps its hashes, the table has the items to which the base and the
//	              operations lead, and no others; and lookups find each key that the history means (K7),
//	              unless a delete of a key that was not in the filter has removed its item
//
// The first three checks look at the whole file. The others follow only if these find no damage,
// and the check of the hashes follows only if no other check finds damage. So one changed byte is
// reported once.
//
// The items of the table and the items of the hashes are compared by two sums of a mix of each item.
// So the items need not be sorted or held in memory.
//
// A fault in the mapping, because the file was cut short or its disk failed, is reported as damage.
//
// # Reading the source
//
// Size and Limit are in size.go. fromSource (build.go) runs the steps of a build. Keys go through
// hashed (keys.go) and the spool (spool.go), kept hashes through OpenKept (kept.go), tail.go and
// merge.go. Then come fill.go and check.go. builder.go has what the steps share. Verify (verify.go) and
// the last step of a build go through the file by pieces (pieces.go), several at once (parallel.go).
package build
