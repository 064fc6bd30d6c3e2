// Package hashes is the format of NAME.hashes, the file beside a filter that has the history of the
// filter: the hash of the key of each operation, and what the operation means. A filter that keeps
// its hashes can be rebuilt without its keys: larger, smaller, with another rate or in another
// layout. Like package layout, this package works on words and opens no file. Package recovery
// describes when the file is written.
//
// # The file
//
// The file consists of pages of 4,096 bytes. All numbers are little-endian, a word is 64
// bits, and the CRC is that of package layout. Words are numbered within their page.
//
//	page 0          header
//	pages 1 and 2   by turns, the last page of the tail, if it is not full
//	pages 3 to B+2  base: the items as of some instant, sorted
//	from B+3 on     tail: the operations since then, in their order; these pages are full
//
// The superblock of the filter has the identity of the file; the number of pages that count, at least
// B+3; and the check of the last full page of the tail, or of the header if the tail has no full
// page. It also has the check of the last page of the tail if this page is not full, and otherwise 0.
// Such a last page is page 1 or 2, whichever has this check. Every checkpoint stores the last page
// anew, as page 1 or 2, whichever the newest superblock does not count. So what a superblock counts
// stays as it is until the next one is durable. Nothing else in the file counts: any other page was
// counted by an older superblock, or its writer died before a superblock counted it.
//
//	header     word 0 magic "MMAPFHSH"   1 version: 2   2 identity, a random number
//	                3 items in the base  4 B            5 sum of their hashes, modulo 2^64
//	                6 number of ages, at most 64
//	                7 zero
//	                8 + 3·i and on       age i: first and last time of its items, their number
//	                200, 201             number and chain of the position of the base
//	                202 to 204           the file of hashes that this file replaced, as far as
//	                                     it is in the base: its identity; the number of its pages
//	                                     that counted; bits 0-31: the check of the last of these,
//	                                     bits 32-63: the check of its last page of the tail, or 0. All
//	                                     three are zero if there was none.
//	              511 bits 0-31: check; bits 32-63: zero
//	base       word 0 bits 0-31: check; bits 32-63: number of items, at most 464
//	                1 to 464             their hashes, in ascending order, equal hashes by age
//	                465 to 511           their ages, 10 in each word: the age of item i is bits
//	                                     6·(i mod 10) to 6·(i mod 10) + 5 of word 465 + ⌊i/10⌋
//	tail       word 0 bits 0-31: check; bits 32-63: number of entries, from 1 to 478
//	                1 number of the position at its beginning
//	                2 the time that is in force at its beginning
//	                3 chain of the position at its beginning
//	                4 to 481             the entries
//	                482 to 511           their kinds, 16 in each word: the kind of entry i is bits
//	                                     4·(i mod 16) to 4·(i mod 16) + 3 of word 482 + ⌊i/16⌋
//
// Unused words and bits are zero. A page of the base other than the last is full. The kind of an entry
// says what it is. An operation has its op in bits 0 and 1, and in bits 2 and 3 its item effect, what it
// did to the items of the filter: 0, nothing; 1, one more; 2, one less. There are no other kinds than
//
//	 0   a time, which is in force for the entries after it
//	 5   insert, and the filter got an item
//	10   delete, and an item was taken
//	 2   delete, and no item was taken
//	 7   "at least one", and the filter got an item
//	 3   "at least one", and another item of the filter answers for the key
//
// The entry of an operation is the hash of its key.
//
// # Positions
//
// The history of a filter is the operations that it had since it began, in their order. A position
// is a place in the history: the number of operations before it, and a chain over these, a word. The
// first position has number and chain 0. An operation with op (1 insert, 2 delete, 3 "at least one")
// and hash leads from one position to the next:
//
//	number + 1
//	(rotl(chain xor hash, 29) + op) · 0x9E3779B97F4A7C15    mod 2^64
//
// where rotl(x, 29) is x rotated by 29 bits to the left. For example, from the beginning on:
//
//	   op            hash               chain after it
//	1   insert        0000000000000000   9e3779b97f4a7c15
//	2   insert        0000000000000001   7a9184f06960bf98
//	3   at least one  0000000000000001   dcf573199ed5f935
//	4   delete        0000000000000001   e1b1d9eb24af3a49
//	5   delete        8000000000000000   3623b103465b602b
//	6   at least one  ffffffffffffffff   f332d0b661ffc78a
//	7   insert        0123456789abcdef   a30da9e41b0ebd57
//	8   delete        0123456789abcdef   8d951b55fb41e4fa
//
// Item effects and times are not part of the chain. A rebuild begins no new history: the new base
// has the position after the last operation in it. Two files that have the same position have the
// same history up to this position, even if one is a copy whose later operations differ. The
// superblock has the position of all operations of the file up to its checkpoint, and a commit
// record of the log (package wal) has the position after its last operation.
//
// # Times
//
// The time of an operation is the time of its commit, in nanoseconds since 1970, by the clock of the
// writer; but no commit has an earlier time than the commit before it, whatever the clock says. The
// tail has one time a second at most: an operation was committed less than a second after the time
// in force. After a crash, operations that no commit had reached have the time of the
// recovery.
//
// The base keeps the times of its items as ages. The times of all items of an age lie between
// its first and its last time. A rebuild puts the operations of the tail into ages of their own
// and joins neighbours until there are 64, so that all have about equally many items. If the superblock
// says that items leave after a time T, a rebuild joins the ages that leave together instead. Let s be
// T/32, but at least a quarter of a second. The items of an age whose last time is t leave T after the
// first multiple of s that is at least a second after t. The rebuild also joins all ages whose items
// should have left already. A time that is more than s/2 after the rebuild becomes the time s/2 after
// the rebuild.
//
// # Checks
//
// The check of a page is the CRC32C of the identity (8 bytes), the number of the page (8), the
// check of the page before it (8), and all words of the page, of which the check itself counts as
// zero. If this CRC is 0, the check is 1. The checks follow this order of the pages, in which a base
// can be written before its items are counted: 3 to B+2, then 0, then B+3 and up, and then the last
// page of the tail, under its own number, 1 or 2. For the first page, the check of the page before it
// counts as zero. So no page can be swapped for a page of another file or from another place, and the
// check of the last page covers all pages before it.
//
// # What a history means
//
// The filter file keeps items, which are fingerprints; several keys may have the same. So the effect
// of an operation on the items depends on the other items: an InsertUnique leaves a key out if an item
// of another key answers for it (the key leans on that item), and a delete of a key that is not there
// takes an item of another key. What the operation means does not depend on the items: rule K7. In
// each class, the file has as many items as the base, plus the sum of the item effects of the tail.
//
// # Rules
//
//	K1  NAME.hashes has the identity that the superblock names, and at least as many pages
//	    as the superblock counts; the last full page of the tail, or else the header, has
//	    the check that the superblock names. If the superblock names the check of a last
//	    page, page 1 or 2 has this check. Every page that counts has the right check. The
//	    header has the version. Each page of the base has its items in order; the base has
//	    as many items, and the sum, that the header says. A page of the tail has entries of
//	    the kinds above, and the position at which the page before it ends; the first page
//	    of the tail has the position of the base. The tail ends at the position of the
//	    superblock.
//	K7  A history means a multiset of hashes, which its operations change in their order.
//	    Each operation concerns only the copies of its own hash: an insert adds a copy; "at
//	    least one" adds a copy if there is none, and otherwise leaves the copies and their
//	    ages as they are; a delete removes the oldest copy, and leaves the multiset as it
//	    is if there is no copy. A base is such a multiset. Whatever is made from hashes has
//	    an item for each copy in this multiset, and no other items. While the tail has an
//	    "at least one" without an item, so that keys may lean, no delete takes an item:
//	    deletes are in the history alone, and wait for the next base. So a key of the
//	    multiset has an item in the file, or leans on the item of another key, unless a
//	    delete of a hash that the multiset lacked has taken this item; the next base gives
//	    it back. Such a delete is in the history, since an item answered for its hash. If
//	    no item of the filter answers for the key of a delete, the delete is refused, and
//	    the history does not get it. (A rebuild gives the new file every delete that the
//	    history has already.)
package hashes
