// Package wal defines the format of the write-ahead log of a filter file: how operations become
// records, how records become a log, and how a log is read after a crash. Like package layout, it
// works on words and opens no file. Package recovery describes when each part is written and what
// must be durable before it.
//
// # Purpose
//
// From the first operation of a writer until its clean close, a file is in state live and has a log
// beside it: NAME.stash. (The stash is something else: a part of the filter file.) The log holds
// the operations since the last checkpoint, in order, as words of the filter file and their new
// values. A program that opens a live file whose writer died stores these values to the file before
// it reads the file. A program that only reads files at rest needs only rule L2, and only if it
// finds a log beside a file.
//
// Package layout defines the terms, the numbers of words and the CRC; package hashes defines
// histories, positions and chains. LSNs (log sequence numbers) number the records and commit
// records of a file, continuing from generation to generation. A segment is the part of the log
// that one commit makes durable.
//
// # The file
//
// A log has a fixed size, a multiple of 4,096 from 131,072 to 2^40; a larger log is a new file that
// takes its place. A log consists of words; offsets are in bytes.
//
//	0          header of an even generation
//	4096       header of an odd generation
//	8192       first half: segments of an even generation, one after the other, each
//	           from a multiple of 4,096 on
//	8192 + H   second half: segments of an odd generation; H is half of what follows the
//	           headers, rounded down to a multiple of 4,096
//
// A header names the generation of a superblock in state live. Header and superblock have the same
// salt, by which a program finds the log of the superblock:
//
//	word 0 magic "MMAPFLOG"   1 version of the log: 3   2, 3 UUID of the file
//	     4 generation         5 salt                    6 size of the log
//	     7 CRC32C of words 0 to 6
//
// A header of another version does not count: a program treats the log as missing (L1).
//
// A generation ends where a checkpoint begins. The next generation goes to the other half, where it
// overwrites an earlier generation, or to a larger log. Until the checkpoint ends, the superblock
// names the old generation, and the log goes on in the next one. The salt of the next generation is
// computed from the old salt: old · 0x9E3779B97F4A7C15 + 0xBB67AE8584CAA73B, modulo 2^64. (The
// first salt after a clean close is random.) Since a half may still have records of an earlier
// generation, every record has a check that covers the salt, its LSN and the check of the record
// before it.
//
// # Segments
//
// A segment begins with two records about the segment itself:
//
//	0          begin record, 40: stored before the first operation
//	40         commit record, 80: stored after the last operation; zero until then
//	120        commit mark, position and chain, 8 each, if the file keeps its hashes or is a
//	           replica without hashes; otherwise unused
//	144        records of 24 to 88
//
//	begin      word 0 magic "MMFBEGIN"   1 generation   2 salt
//	                3 LSN of the first record
//	                4 bits 0-31: the check before the first record;
//	                  bits 32-63: CRC32C of words 0 to 3 and of bits 0-31 (as a word)
//	commit     word 0 magic "MMFCOMMT"   1 generation   2 salt   3 its LSN
//	                4 number of records  5 user sequence
//	                6 operation number   7 length
//	                8 an LSN up to which the log was durable when this record was stored
//	                9 bits 0-31: CRC32C of the records;
//	                  bits 32-63: CRC32C of words 0 to 8 and of bits 0-31 (as a word), and
//	                  of the commit mark, the position and the chain if the file has them
//	commit     the time, in nanoseconds since 1970; in a replica without hashes, the new value of the
//	mark       field at offset 552 of the superblock instead
//	position,  the position after the last record: the number of operations in the history, and the chain
//	chain      over them; in a replica without hashes, this history is the one that the replica follows
//
// The commit record is at the head of its segment, not at the end, so that a small commit writes
// one page instead of two. It is stored last, and its LSN is one more than the LSN of the last
// record.
//
// # Records
//
// A record is what one operation stores to one block of 64 bytes. If the file keeps its hashes
// (package hashes), the last record of an operation also has the meaning of the operation in the
// history. An operation that stores nothing is a single record, with this meaning and without
// words.
//
//	word 0 bits 0-47: number of the first word, in the file
//	       48: guarded: the operation removes a fingerprint from this block, or changes words
//	       that mean something only together (in compact, all changes but those of overflow bits)
//	       49: last record of its operation; bits 50, 51, 60 and 61 are set only with it
//	       50, 51: the item effect: 1, the length grows by 1; 2, it shrinks by 1
//	       52-58: bit 52+j is set if the word j+1 places after the first has a
//	       value too; all of them are in the same block
//	       59: the record has no words: there is no first word, and no value
//	       60, 61: what the operation means in the history: 1, insert; 2, delete;
//	       3, at least one; 0, nothing. Unless these bits are 0, the word before the last
//	       is the hash of the key
//	       62: the record is a mark record; of the other bits, it has only 49 and 59
//	       63: zero
//	word 1 and on: the values, in the order of the words
//	last word bits 0-31: check; bits 32-63, if bit 49 is set: the operation
//	       number modulo 2^32
//
// If the file keeps its hashes, the meaning limits the item effect: an insert has 1; a delete has
// 2, or 0 if it removed no item; "at least one" has 1, or 0 if an item already answered for the
// key. A record without words is either a mark record, or a delete or "at least one" that stores
// nothing. Such a delete or "at least one" has bits 49 and 59, 2 or 3 in bits 60 and 61, and no
// other bit. It takes 24 bytes: word 0, the hash and the last word. (Bytes that are not a record
// may have bit 59, and 0 in bits 60 and 61. Read them as a record of 24 bytes; their check shows
// that they are not one.)
//
// A mark record has 40 bytes. Only the log of a replica with hashes has mark records. Words 1 to 3
// are the new values of the fields at offsets 568 to 591 of the superblock. A mark record has the
// operation number of the operation before it, and is the last record of its segment. It counts
// only if the commit record of its segment counts.
//
// The check of a record is one CRC32C over these bytes, in this order: the salt (8), the LSN (8),
// words 0 and 1 (16), the check before it (4), bits 32-63 of the last word (4), and words 2 up to,
// but not including, the last. For the first record of a segment, "the check before it" is the CRC
// in bits 32-63 of word 9 of the commit record of the previous segment, which may belong to the
// previous generation. Without a previous segment, this check is 0. LSNs begin at the checkpoint
// LSN + 1.
//
// # Where a log ends
//
// After the last record of a segment whose commit record matches, reading continues at the next
// multiple of 4,096. The log ends before the first record or begin record whose check is wrong.
// Before that point, the records of whole operations count. A commit record that does not match all
// records of its segment does not count, and neither do later segments. After the last segment of
// the generation that the superblock names, reading continues with the next generation, if the LSN
// and the check in its first begin record follow on from this segment.
//
// # Rules
//
//	L1   Beside a live file there is a log with a header that has the UUID and the salt of the
//	     superblock, and the right size. It is called NAME.stash, or NAME.stash.new if its writer
//	     died while replacing the log by a larger one. In this case both logs may count: NAME.stash
//	     has the generation that the superblock names, and NAME.stash.new the next one.
//	L2   Let g be the generation of the newest superblock. No log of the file has a begin or commit
//	     record of a generation above g, with one exception: if this superblock is live, records of
//	     generation g+1 are right if they have the next salt. No header has a generation above g+1.
//	     If this rule is broken, a superblock was lost. A log belongs to the file if a header has the
//	     UUID of the file, or the UUID that a sealed file gets with its first operation: the 128-bit
//	     XXH3 hash of the old UUID, with the salt of the header as the seed, in the big-endian form
//	     that XXH3 defines.
//	L3   A record with the right check has no bits but those above. Only the last record of an
//	     operation has an item effect and a meaning in the history, and its meaning allows its item
//	     effect. A record stores to words of the stash or of the region, all in one block. Only the
//	     log of a replica with hashes has mark records.
//	L4   The length in a commit record is the length in the superblock plus the sum of the item
//	     effects of all records since. If the file keeps its hashes, the position and the chain
//	     likewise follow from the superblock and the records. (In a replica without hashes, records
//	     do not lead to a position.)
//	L5   The log does not end before an LSN up to which it was durable. Such LSNs are the checkpoint
//	     LSN; word 8 of any commit record of either generation with a right CRC, even of one that
//	     reading does not reach; and the LSN of a promise in the runtime page for the salt of either
//	     generation. A promise counts if its second word is
//	     ((salt xor (LSN · 0x9E3779B97F4A7C15)) · 0xBB67AE8584CAA73B) xor LSN, modulo 2^64.
package wal
