// Package hashes is the format of NAME.hashes, the file beside a filter that has the hash of
// every item. A filter that keeps its hashes can be rebuilt without its keys: larger,
// smaller, with another rate or in another layout. Like package layout, this package works on
// words and opens no file. Package recovery describes when the file is written.
//
// # The file
//
// The file consists of pages of 4,096 bytes. All numbers are little-endian, a word is 64
// bits, and the CRC is that of package layout. Words are numbered within their page.
//
//	page 0          header
//	pages 1 to B    base: the items as of some instant, sorted
//	from B+1 on     tail: the operations since then, in their order
//
// The superblock of the filter has the identity of the file, the number of its pages that
// count, and the check of the last of these. Pages after these do not count: their writer died
// before a superblock that counts them was durable.
//
//	header     word 0 magic "MMAPFHSH"   1 version: 1   2 identity, a random number
//	                3 items in the base  4 B            5 sum of their hashes, modulo 2^64
//	                6 number of ages, at most 64
//	                7 zero
//	                8 + 3·i and on       age i: first and last time of its items, their number
//	              511 bits 0-31: check; bits 32-63: zero
//	base       word 0 bits 0-31: check; bits 32-63: number of items, at most 464
//	                1 to 464             their hashes, in ascending order, equal ones by age
//	                465 to 511           their ages, 10 in each word: that of item i is bits
//	                                     6·(i mod 10) to 6·(i mod 10) + 5 of word 465 + ⌊i/10⌋
//	tail       word 0 bits 0-31: check; bits 32-63: number of entries, at most 493
//	                1 number of operations in the tail before this page
//	                2 the time that is in force at its beginning
//	                3 to 495             the entries
//	                496 to 511           their kinds, 32 in each word: that of entry i is bits
//	                                     2·(i mod 32) and the next of word 496 + ⌊i/32⌋
//
// Unused words and bits are zero. A page of the base other than the last is full. A page of
// the tail need not be: every checkpoint begins one, since a page that the superblock counts
// is not stored to again.
//
// The kind of an entry is 0 for an insert and 1 for a delete, whose hash the entry is; and 2
// for a time, which is in force for the entries after it.
//
// # Times
//
// A time is that of the commit of an operation, in nanoseconds since 1970, by the clock of
// the writer. The tail has one time a second at most: an operation was committed less than a
// second after the time in force. After a crash, the operations that were committed by the
// recovery have its time.
//
// The base keeps the times of its items as ages. The times of all items of an age lie between
// its first and its last time. A rebuild puts the operations of the tail into ages of their own
// and joins neighbours until there are 64, so that each has about as many items.
//
// # Checks
//
// The check of a page is the CRC32C of the identity (8 bytes), the number of the page (8), the
// check of the page before it (8), and all words of the page, of which the check itself counts as
// zero. The pages have an order of their own here, in which a base can be written before it is
// counted: 1 to B, then 0, then those from B+1 on. Nothing is before the first; its check counts
// as zero. So no page can be swapped for one of another file or another place, and the check of
// the last page covers all pages before it.
//
// # What the items are
//
// The items are those of the base and those of the inserts in the tail, less one for each
// delete in the tail: the oldest item of that hash. Equal hashes are several items.
//
// # Rules
//
//	K1  NAME.hashes has the identity that the superblock names, at least as many pages,
//	    and the check of the last of them. Every page has its check, and what it says
//	    of itself: the header the version; a page of the base its items in order; the
//	    base as many items and the sum that the header says; a page of the tail as many
//	    operations as are before it. A delete in the tail has an item to delete.
package hashes
