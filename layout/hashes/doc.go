// Package hashes defines the format of NAME.hashes, a file beside a filter. It has the history of
// the filter: the hash of the key of each operation, and what the operation means. A filter that
// keeps its hashes can be rebuilt without its keys: larger, smaller, with another rate or in
// another layout. Like package layout, this package works on words and opens no file. Package
// recovery describes when the file is written.
//
// # The file
//
// The file consists of pages of 4,096 bytes. All numbers are little-endian, a word is 64
// bits, and the CRC is that of package layout. Words are numbered within their page.
//
//	page 0          header
//	pages 1 and 2   in turn, the last page of the tail while it is not full
//	pages 3 to B+2  base: the items at some instant, sorted
//	from B+3 on     tail: the operations since then, in order; these pages are full
//
// The superblock of the filter has the identity of the file; the number of pages that count, at
// least B+3; and the check of the last full page of the tail, or of the header if the tail has no
// full page. It also has the check of the last page of the tail if this page is not full, and
// otherwise 0. A last page that is not full is page 1 or 2, whichever has this check. Every
// checkpoint stores this last page again, as whichever of pages 1 and 2 the newest superblock does
// not use. So the pages that count stay unchanged until the next superblock is durable. As for any
// other page in the file, either only an older superblock counted it, or its writer died before any
// superblock did.
//
//	header     word 0 magic "MMAPFHSH"   1 version: 2   2 identity, a random number
//	                3 items in the base  4 B            5 sum of their hashes, modulo 2^64
//	                6 number of ages, at most 64
//	                7 zero
//	                8 + 3·i and on       age i: first and last time of its items, their number
//	                200, 201             number and chain of the position of the base
//	                202 to 204           the file of hashes that this file replaced, up to the position
//	                                     of the base: its identity; the number of its pages that
//	                                     counted; bits 0-31: the check of the last of these pages,
//	                                     bits 32-63: the check of its last page of the tail if not
//	                                     full, or 0. All three are zero if no file was replaced.
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
// Unused words and bits are zero. All pages of the base but the last are full. The kind of an entry
// says what the entry is. The kind of an operation has the op in bits 0 and 1, and in bits 2 and 3
// the item effect, which is what the operation did to the items of the filter: 0, nothing; 1, one
// more; 2, one less. The only kinds are
//
//	 0   a time, which is in force for the entries after it
//	 5   insert, and the filter got an item
//	10   delete, and the filter lost an item
//	 2   delete, and the filter lost no item
//	 7   "at least one", and the filter got an item
//	 3   "at least one", and the filter got none, since an item already answered for the key
//
// The entry of an operation is the hash of its key.
//
// # Positions
//
// The history of a filter is all its operations since it began, in order. A position is a place in
// the history. It consists of the number of operations before it, and a word, the chain over these
// operations. The first position has number and chain 0. An operation with op (1 insert, 2 delete,
// 3 "at least one") and hash leads from one position to the next:
//
//	number + 1
//	(rotl(chain xor hash, 29) + op) · 0x9E3779B97F4A7C15    mod 2^64
//
// where rotl(x, 29) is x rotated by 29 bits to the left. For example, from the first position on:
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
// Item effects and times are not part of the chain. A rebuild does not begin a new history: the new
// base has the position after the last operation that it includes. Two files that have the same
// position have the same history up to this position, even if one is a copy whose later operations
// differ. The superblock has the position after the last operation before its checkpoint, and a
// commit record of the log (package wal) has the position after its last operation.
//
// # Times
//
// The time of an operation is the time of its commit, in nanoseconds since 1970, by the clock of
// the writer; but no commit has an earlier time than the commit before it, whatever the clock says.
// The tail has at most one time a second: an operation was committed less than a second after the
// time in force. Operations that a crash left without a commit have the time of the recovery.
//
// The base keeps the times of its items as ages. The times of all items of an age lie between its
// first and its last time. A rebuild puts the operations of the tail into ages of their own, and
// joins neighbouring ages until there are 64, so that all have about equally many items. If the
// superblock says that items expire after a time T, a rebuild instead joins the ages that expire
// together. Let s be T/32, but at least a quarter of a second. The items of an age whose last time
// is t expire T after the first multiple of s that is at least a second after t. The rebuild also
// joins all ages whose items should have expired already. If a time is more than s/2 after the
// rebuild, it is replaced by the time s/2 after the rebuild.
//
// # Checks
//
// The check of a page is the CRC32C of the identity (8 bytes), the number of the page (8), the
// check of the page before it (8), and all words of the page, with zero in place of the check
// itself. If this CRC is 0, the check is 1. For checks, the pages have this order: 3 to B+2, then
// 0, then B+3 and up, and then the last page of the tail, under its own number, 1 or 2. (So a base
// can be written before its items are counted.) The first page in this order takes zero for the
// check of the page before it. So no page can be swapped for a page of another file or from another
// place, and the check of the last page covers all pages before it.
//
// # What a history means
//
// The filter file keeps only the fingerprints of items, and several keys may have the same
// fingerprint. So what an operation does to the items depends on the items of other keys. An
// InsertUnique leaves a key out if an item of another key answers for it: the key leans on that
// item. A delete of a key that is not in the filter may remove the item of another key. But what an
// operation means does not depend on the items: see rule K7. In each class, the file has as many
// items as the base, plus the sum of the item effects of the tail.
//
// # Rules
//
//	K1  NAME.hashes has the identity that the superblock names, and at least as many pages as the
//	    superblock counts; the last full page of the tail, or else the header, has the check that the
//	    superblock names. If the superblock names the check of a last page that is not full, page 1
//	    or 2 has this check. Every page that counts has the right check. The header has the version.
//	    Each page of the base has its items in order; the base has as many items as the header says,
//	    and their hashes have the sum that the header says. A page of the tail has entries of the
//	    kinds above, and begins at the position where the page before it ends; the first page of the
//	    tail begins at the position of the base. The tail ends at the position in the superblock.
//	K7  A history means a multiset of hashes, which its operations change in their order. Each
//	    operation changes only the copies of its own hash: an insert adds a copy; "at least one" adds
//	    a copy if there is none, and otherwise changes neither the copies nor their ages; a delete
//	    removes the oldest copy, and changes nothing if there is no copy. A base is such a multiset.
//	    A file that is built from hashes has an item for each copy in the multiset, and no other
//	    items. Once an "at least one" in the tail has added no item, keys may lean on items of other
//	    keys. From then on no delete removes an item: deletes are only in the history, and wait for
//	    the next base. So each key of the multiset has an item in the file, or leans on the item of
//	    another key, with one exception: a delete of a hash that is not in the multiset may have
//	    removed this item. (Such a delete is in the history, because an item answered for its hash.)
//	    The next base gives the key an item again. If no item of the filter answers for the key of a
//	    delete, the delete is refused, and is not in the history. (But a rebuild repeats in the new
//	    file every delete that is in the history.)
package hashes
