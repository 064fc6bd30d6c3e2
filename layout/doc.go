// Package layout is the file format of mmapfilter as pure functions over bytes
// and words: no files, no clock, no goroutines, no randomness. This essay, with
// the vectors in testdata, is enough to write a reader in another language.
//
// # Terms
//
// The words are those of Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo
// Filter: Practically Better Than Bloom" (CoNEXT 2014). A fingerprint is f bits
// of the hash of a key. A slot holds one fingerprint. A bucket is b slots. A
// line is what an item has two of, called home and alternate: 64 aligned bytes,
// what a processor fetches at once, in the layouts blocked and compact; one bucket
// in the layouts compact, packed and semi-sorted. Each key that was put in is an item. All that
// the file keeps of it is a fingerprint, at a place from which its two lines, and
// its two buckets in each, follow. The stash holds items that found no slot.
//
// All numbers in a file are little-endian. A word is 64 bits, aligned to 8
// bytes. Offsets and sizes are in bytes. Bit 0 is the lowest of a word. In
// formulas all numbers are natural; x >> k is ⌊x / 2^k⌋ and hi(a, b), for two
// words, is a·b >> 64, the high half of the 128-bit product.
//
// # The file
//
//	0          4 superblock copies of 4,096
//	16384      runtime page, 4,096: what a writer tells readers; means nothing in a file at rest
//	20480      stash, 12,288: 192 groups of 64, each 4 entries of 16
//	32768      region: n lines, R in all
//	…          zero bytes up to T, the next multiple of 4,096
//
// and, in a sealed file,
//
//	T          checksum table: 4 for each chunk
//	…          zero bytes up to the next multiple of 64
//	…          trailer, 64
//	…          zero bytes up to the end, the next multiple of 4,096
//
// So superblock copy i starts at 4096·i, and stash group g at 20480 + 64·g. A
// line has size bits, and line i is the bits size·i to size·i + size-1 of the
// region, whatever words they are in; bit j of the region is bit j mod 64 of its
// word ⌊j/64⌋. A chunk is 65,536 bytes, counted from 16384 on; the last one ends
// at T and may be shorter. For n lines
//
//	size        = 512 (blocked, compact), f·b (packed), 4·f - 4 (semi-sorted)
//	R           = roundup(⌈n·size / 8⌉, 64)
//	T           = roundup(32768 + R, 4096)
//	chunks      = ⌈(T - 16384) / 65536⌉
//	sealed size = roundup(roundup(T + 4·chunks, 64) + 64, 4096)
//
// # Superblock
//
//	offset size field
//	     0    8 magic "MMAPFLTR"
//	     8    4 format version: 1
//	    12    4 reserved
//	    16    8 generation, at least 1
//	    24    8 compat flags            none is defined
//	    32    8 read-only-compat flags  none is defined
//	    40    8 incompat flags          none is defined
//	    48   16 UUID of the content
//	    64    1 state: 1 clean, 2 live, 3 sealed
//	    65    1 layout: 1 blocked, 3 packed, 4 semi-sorted, 5 compact
//	    66    1 f, bits per fingerprint
//	    67    1 b, slots per bucket
//	    68    1 hash: 1 is XXH3, 64 bits, with a seed (XXH3_64bits_withSeed)
//	    69    3 reserved
//	    72    8 hash seed
//	    80    8 canary: the hash of the 17 bytes "mmapfilter canary" with that seed
//	    88    8 n, lines
//	    96    8 size of the region: R
//	   104    8 capacity: the items the file was sized for
//	   112    8 false-positive rate it was sized for, IEEE 754 double
//	   120    8 design load: items over slots that it was sized for, IEEE 754 double
//	   128    8 length: items in the file; may be more than the capacity
//	   136    8 log salt; 0 unless live
//	   144    8 checkpoint LSN: the lines hold all up to it
//	   152    8 user sequence: a number of the application's
//	   160    8 operation number: operations since the user sequence was set
//	   168    8 log size; 0 unless live
//	   176   80 reserved
//	   256  256 key normalisation: a note of the program that made the keys; it ends before the first zero byte
//	   512 3580 reserved
//	  4092    4 CRC32C of bytes 0 to 4091
//
// A sealed file was not written to since its checksums were made. A clean one
// was, and was closed in order: it is complete, but for the checksums; from T
// on, if it has bytes there, they mean nothing. A live one has a writer, which
// holds a lock on it, or had one that died: then its log has to be replayed
// before it is read. The fields from 136 on are for the writer. To read a file
// that nobody writes to, neither they nor the runtime page are needed.
//
// CRC32C is the CRC of iSCSI: polynomial 0x1EDC6F41, reflected, with initial
// value and final XOR 0xFFFFFFFF; that of "123456789" is 0xE3069283.
//
// # From key to slots
//
//	h       = XXH3_64bits_withSeed(key, seed)
//	line    = hi(h, n)                 the home line
//	rest    = h·n mod 2^64
//
// The line is uniform in [0, n) for every n, a power of two or not, and the top
// bits of rest are bits of the hash that the line did not use. What follows is
// the layout blocked; for the others see below. There a line is 8 buckets of one
// word each, with
//
//	f    8  10  12  15  20  30
//	b    7   6   5   4   3   2
//
//	bucket  = rest >> 61
//	fp      = 1 + hi(8·rest mod 2^64, 2^f - 1)
//	m       = fp · 0x9E3779B97F4A7C15 mod 2^64
//	d       = 1 + ((7·((m >> 32) mod 2^16)) >> 16)
//	other   = bucket xor d
//	o(B)    = (m >> (48 + 2·B)) mod 4                    for B = bucket and B = other
//	u       = (m xor (m >> 32)) · 0xBB67AE8584CAA73B mod 2^64
//	alt     = (hi(u, n) + n - line) mod n               the alternate line
//
// Since fp is at least 1, an empty slot is 0. An item has the buckets bucket and
// other in both lines, and each line is the alternate of the other: from a line
// and a fingerprint found there, the other line and the other bucket follow.
// Where alt is line, the item has one line only. A bucket is
//
//	bit 63   62   61   60 59           f·b-1                          0
//	    ┌────┬────┬────┬────┬───────────┬──────────┬─────┬───────────┐
//	    │ 3  │ 2  │ 1  │ 0  │ zero      │ slot b-1 │  …  │  slot 0   │
//	    └────┴────┴────┴────┴───────────┴──────────┴─────┴───────────┘
//	      overflow bits      (f = 8 only)
//
// An item stands in any slot of its two buckets in its home line; or in any
// slot of the same two in its alternate line; or in the stash. Unless it stands
// in its home line, two overflow bits are set there: number o(bucket) of bucket
// and number o(other) of other. Overflow bits are never cleared. Those of the
// home line alone count in a lookup:
//
//  1. If a slot of bucket or other in the home line holds fp: maybe.
//  2. Unless overflow bit o(bucket) of bucket and overflow bit o(other) of
//     other are both set in the home line: certainly not.
//  3. If a slot of bucket or other in the alternate line holds fp: maybe.
//  4. If the stash has an entry for the item, with a count of at least 1: maybe.
//     Otherwise: certainly not.
//
// # Compact
//
// A line is one bucket, with v overflow bits:
//
//	f   10  11  12  13  14  15  16  17  18  19  20  21  22
//	b   86  72  62  54  48  43  39  36  33  31  29  27  25
//	v   17  15  13  15  15  17  18  15  18  13  12  15  22
//
// line, rest, u and alt are as above, but
//
//	fp      = rest >> (64 - f)                           0 is one like any other
//	r       = f - 6
//	q       = fp >> r                                    the quotient, 0 to 63
//	rem     = fp mod 2^r                                 the remainder
//	i       = fp mod 128                                 the number of a pair
//	o       = i mod v
//	o'      = (o + 1 + ⌊i/v⌋) mod v
//
// and a line is
//
//	bit 511        512-v            65+b+r·b        65+b             0
//	    ┌────────────┬────────────────┬─────┬─────────┬───────────────┐
//	    │ overflow   │ remainder of   │  …  │ rem. of │ counts of 64  │
//	    │ bits v-1…0 │ slot b-1       │     │ slot 0  │ quotients     │
//	    └────────────┴────────────────┴─────┴─────────┴───────────────┘
//
// With n items in the line, slots 0 to n-1 hold their fingerprints, which do not
// fall. The counts say which quotients they have: for each of the 64 in turn there is
// a bit 0, and then a bit 1 for each item that has it. All bits between the counts
// that this gives, which are n + 64, and the remainder of slot 0 are zero, and there is
// one at least; so are the remainders of the slots from n on. So let z be the place of
// bit 0 number q of the counts, both counted from 0 on. The bits 1 that follow it before
// the next 0 are those of the slots from z - q on; and the line holds fp if one of them
// has rem.
//
// An item stands in any slot of its home line; or of its alternate line; or in the
// stash. Unless it stands in its home line, the overflow bits o and o' are set there.
// Overflow bits are never cleared, and those of the home line alone count:
//
//  1. If the home line holds fp: maybe.
//  2. Unless both overflow bits o and o' are set in the home line: certainly not.
//  3. If the alternate line holds fp: maybe.
//  4. If the stash has an entry for the item, whose buckets count as 0, with a count
//     of at least 1: maybe. Otherwise: certainly not.
//
// # Packed and semi-sorted
//
// These are the two tables of the paper. A line is one bucket, with
//
//	packed        f of 4 to 32    b of 1, 2, 4 or 8
//	semi-sorted   f of 5 to 32    b = 4
//
// and line, rest, m, u and alt as above, but for
//
//	fp      = 1 + hi(rest, 2^f - 1)
//
// An item stands in any slot of its home line or of its alternate line, or in the
// stash. There are no overflow bits:
//
//  1. If a slot of the home line or of the alternate line holds fp: maybe.
//  2. If the stash has an entry for the item, whose buckets count as 0, with a
//     count of at least 1: maybe. Otherwise: certainly not.
//
// A packed bucket is its slots, one after the other:
//
//	bit f·b-1                       0
//	    ┌──────────┬─────┬───────────┐
//	    │ slot b-1 │  …  │  slot 0   │
//	    └──────────┴─────┴───────────┘
//
// In a semi-sorted one, the fingerprints of the 4 slots, empty ones among them,
// are in rising order. The four highest bits of each are its nibble, the other
// f-4 its rest:
//
//	bit 4·f-5                                        12 11          0
//	    ┌───────────┬───────────┬───────────┬──────────┬─────────────┐
//	    │ rest of   │ rest of   │ rest of   │ rest of  │ number of   │
//	    │ slot 3    │ slot 2    │ slot 1    │ slot 0   │ the nibbles │
//	    └───────────┴───────────┴───────────┴──────────┴─────────────┘
//
// The nibbles do not fall, p ≤ q ≤ r ≤ s. There are C(19, 4) = 3,876 such
// sequences, with C the binomial coefficient, and the number of one is
//
//	p + C(q+1, 2) + C(r+2, 3) + C(s+3, 4)
//
// Counting all of them, s in the outermost loop and p in the innermost, gives each
// its number in turn. Nibbles that are equal are those of slots whose rests do not
// fall. So what is in a bucket gives its bits.
//
// # Which layout
//
// Measured in one run, 30 million keys in memory, absent ones asked for by their hashes, on 2
// cores of an AMD EPYC (Zen 4; go test ./mmapfilter -run '^$' -bench 'Layouts$'); inserts and
// deletes in another one, at 80, 90, 95 and 98 % load, on an Intel Xeon:
//
//	rate asked                    1 %               0.3 %              0.05 %
//	                        blocked  compact   blocked  compact   blocked  compact
//	bits a key                13.02     9.69     13.07    11.36     16.34    14.52
//	rate                     0.96 %   0.71 %    0.27 %   0.29 %   0.027 %  0.030 %
//	second lines              0.2 %    4.3 %     3.6 %    1.8 %     3.6 %    5.4 %
//	one lookup, ns               37       47        43       49        42       51
//	in a batch, ns             11.6     17.1      14.4     16.5      14.1     18.6
//	Build, ns a key              26       33        42       30        46       37
//
//	                                 blocked                     compact
//	an insert, µs              0.19, 0.28, 0.42, 0.67      0.46, 0.73, 1.05, 1.45
//	its log, bytes             25, 32, 41, 47              53, 64, 77, 87
//	a delete, µs; its log      0.21; 24                    0.49; 58
//	lines (wc -l)              740; 620 that write asm     850; 540 that write asm, 470 for both
//
// Blocked is what [Auto] stands for, at every rate: its lookups are the fastest, most of
// all where 1 % is enough, and most inserts store one word, so that their log record is
// the smallest there can be. It stays.
//
// Compact is for whoever wants the least space: 11 to 26 % less at the same rate, and a
// cache line a lookup all the same. It is asked for, by Options.Layout. Its inserts take 2.2
// to 2.6 times as long, with twice as much log. Of its lookups, one of a hash takes 1.1 to 1.3
// times as long, and of 200 million keys one of a key 1.15, 1.02 and 1.11 times at the three
// rates (48, 50 and 51 ns for one of Blocked). What is asked for as 1 % has a rate of 0.71 % in
// Compact: beside the Blocked that serves that, with f=12 at 98 % load, one of a key takes 1.08
// times as long, and one of a hash 1.20. At 0.3 % and less, and where the file is built and then
// read, it costs little: Build is faster, since there is less to write. (Second lines are
// those of a filter that Build made; filled by inserts to the same load, there are up to
// two thirds more.)
//
// Of 700 million keys, 1 GiB, files on tmpfs, one of a key takes 1.00 to 1.03, 0.99 to 1.00 and
// 1.07 times as long at the three rates, one of a hash 1.11, 1.06 and 1.15 times. (In one run of
// the command above, where how large the pages are that an allocation gets differs, 1.17, 0.39 and
// 1.17 times for a hash, in a batch 1.42, 0.29 and 1.29 times, Build 1.22, 0.63 and 0.85 times.)
//
// Packed and semi-sorted are the filters of the paper, to be compared with and for
// tables whose space must be what it says. A lookup of an absent key reads two lines.
//
// # Stash
//
// An entry stands for all items with the same two lines, the same two buckets
// and the same fingerprint. It is two words:
//
//	word 0   bits 0-55: the lower of the two lines; bits 56-62: the lower of the two buckets
//	word 1   bits 0-31: how many items, at least 1; bits 32-63: the fingerprint
//
// Both are zero where the entry is free, but for bit 63 of word 0, which is no
// part of the entry: in the first of the 4 entries of a group it is the mark of
// the group, in the others it is zero. Word 0 is compared without it. The entry
// is at any of the 4 places of group
//
//	hi(((word 0 xor (fp · 0xBB67AE8584CAA73B mod 2^64)) · 0x9E3779B97F4A7C15) mod 2^64, 192)
//
// or, if that group is marked, at any of the next one; if that is marked as
// well, of the one after it, and so on, through each group once at most; group 0
// comes after group 191. Marks are never cleared.
//
// # Reading beside a writer
//
// A writer stores words, each at once, and in an order in which every item is
// in one of its places at any instant, but for one that moves inside a block of 64 bytes:
// what one operation stores to a block comes in the order of its words, and the counter
// of the block is odd meanwhile. It tells of what it takes away, and of the
// compact lines and the semi-sorted buckets in more than one word that it changes
// (but for overflow bits), in the runtime page:
//
//	16384      recovery epoch, a word: odd while someone recovers the file
//	16448      removal counter of the stash, a word
//	16512      promise: an LSN, and a word of check; then another one
//	18432      removal counters of the region, 256 words
//
// and the rest is zero. Block i of the region, its bytes from 64·i on, has counter
// i mod 256; a line may be in two blocks, and has two counters then. A counter is
// odd while a word of its blocks loses a fingerprint, or one of a compact line or of
// a semi-sorted bucket in several words changes, until all words that are changed with
// it are stored; and higher afterwards. The answer "maybe" always holds. The answer
// "certainly not" holds only if the epoch and the counters of all places that were
// read (the home line; the alternate line and the stash, if they were) were even,
// were read before the first slot of any of these places, and are the same at the
// end. Otherwise the reader looks again, or answers "maybe". In particular, when
// the home line turns out not to be enough, the lookup begins again with the
// counters of all three.
//
// # Log
//
// The log, NAME.stash, is beside a live file: its words are those of the file
// that operations since the checkpoint give new values, in their order. It has
// a fixed size, a multiple of 4,096, and is made of words; offsets are in bytes.
//
//	0          header: of an even generation
//	4096       header: of an odd generation
//	8192       batches, one after the other, each from a multiple of 4,096 on
//
// A header names the generation of a live superblock, and leads from its salt to
// this log:
//
//	word 0 magic "MMAPFLOG"   1 format version 1   2, 3 UUID of the file
//	     4 generation         5 salt               6 size of the log
//	     7 CRC32C of words 0 to 6
//
// A batch holds the operations of one commit, and begins with two records:
//
//	0          begin record, 40: stored before the first operation
//	40         commit record, 80: stored after the last one, or zero
//	120        zero, 8
//	128        records of 24 to 80
//
//	begin      word 0 magic "MMFBEGIN"   1 generation   2 salt
//	                3 LSN of the first record
//	                4 bits 0-31 the check that the first record is chained to,
//	                  bits 32-63 CRC32C of words 0 to 3 and of bits 0-31 (as a word)
//	commit     word 0 magic "MMFCOMMT"   1 generation   2 salt   3 its LSN
//	                4 number of records  5 user sequence
//	                6 operation number   7 length
//	                8 an LSN up to which the log was durable when this was stored
//	                9 bits 0-31 CRC32C of the records,
//	                  bits 32-63 CRC32C of words 0 to 8 and of bits 0-31 (as a word)
//	record     word 0 bits 0-47 number of a word in the file; 48 it takes something
//	                  away; 49 last of its operation; 50 length + 1; 51 length - 1;
//	                  52-58 which of the seven words after that one it is about too,
//	                  all of them in one block of 64 bytes
//	           from 1 on their values, in the order of the words
//	         the last bits 0-31 check; bits 32-63, if bit 49 is set, the operation
//	                  number modulo 2^32
//
// The check of a record is the CRC32C of salt, LSN, word 0 and word 1, then of 32
// bits of the check before it and of bits 32-63 of the last word, then of the words
// from word 2 up to the last. The check before the
// first record of a generation is 0; that before the first record of a later
// batch is the CRC in bits 32-63 of word 9 of the commit record before it. Records
// and commit records have LSNs that follow one another, from the checkpoint LSN
// + 1 on; the commit record has that after its last record, though it stands
// before them.
//
// The log ends before the first record whose check is wrong, and what counts of
// it ends with the last operation before that. A commit record that is not that
// of all the records before it does not count either, nor does what follows it.
//
//	L1   Beside a live file there is a log with a header that has the UUID and the
//	     salt of the superblock, and the right size. It is called NAME.stash, or
//	     NAME.stash.new if its writer died as it took that log into use.
//	L2   No log of the file has a begin or commit record of a later generation than
//	     the newest superblock. A log is that of the file if a header has its UUID,
//	     or the one that a sealed file gets with its first operation: the 128 bits
//	     of XXH3 of its UUID, with the salt of the header for a seed, big-endian as
//	     XXH3 writes them.
//	L3   A record with the right check has no unknown bits, and words of the stash
//	     or of the lines, of one block.
//	L4   The length of a commit record is that which its records lead to.
//	L5   The log does not end before an LSN up to which it was durable: that of the
//	     checkpoint, of any commit record of the generation with a right CRC, whether
//	     the log leads to it or not, or of a promise. A promise of the runtime page
//	     counts if its second word is ((salt xor (LSN · 0x9E3779B97F4A7C15)) ·
//	     0xBB67AE8584CAA73B) xor LSN, modulo 2^64.
//
// # Trailer
//
//	offset size field
//	     0    8 magic "MMAPFSUM"
//	     8    4 format version: 1
//	    12    4 chunk size: 65536
//	    16    8 chunks
//	    24    8 generation of the superblock
//	    32   16 UUID of the superblock
//	    48    4 CRC32C of the 4·chunks bytes of the checksum table
//	    52    8 zero
//	    60    4 CRC32C of bytes 0 to 59
//
// Entry i of the checksum table is the CRC32C of chunk i. The superblocks are in
// no chunk; each has its own.
//
// # Rules
//
// Errors name them. Those marked V are checked by a full verification, the
// others whenever a file is opened.
//
//	F1   The file has at least 16,384 bytes. A superblock copy is intact when it
//	     has the magic and the CRC of its bytes, and one at least is. In every
//	     version to come, magic, CRC, version, generation and flags stay where
//	     they are. V: in a sealed file every copy is equal to the one that
//	     counts, or intact and of a lower generation, or 4,096 zero bytes, or it
//	     has the magic and a CRC of 0: its writer was killed on the way.
//	F2   Of the intact copies the one with the highest generation counts, and no
//	     other, whatever is wrong with it; of several, the first. Its generation
//	     is at least 1. F3 to F7 are about this copy alone.
//	F3   The version is 1, and no unknown incompat flag is set: otherwise refuse.
//	     An unknown read-only-compat flag: do not write. An unknown compat flag:
//	     ignore it.
//	F4   The reserved bytes of a superblock (12 to 15, 69 to 71, 176 to 255, 512
//	     to 4091) are zero, unless it has an unknown compat flag; the other two
//	     kinds of flags do not excuse it.
//	F5   The hash is known, and gives the canary.
//	F6   Layout, f and b are known; 1 ≤ n; ⌈log2 n⌉ + 3 + f + 2 ≤ 64 (blocked) or
//	     ⌈log2 n⌉ + f + 2 ≤ 64 (the others), so that a hash has the bits for line,
//	     bucket and fingerprint and 2 to spare; n·size ≤ 2^48, and R is the size of
//	     the region; 0 < rate < 1; 0 < design load ≤ 1. A sealed file has the sealed
//	     size; another has that or T.
//	F7   The state is 1, 2 or 3.
//	F8   V: every chunk of a sealed file has the CRC of its entry.
//	F9   V: every field of the trailer of a sealed file has the value given
//	     above; the bytes between and after table and trailer are zero.
//	F10  V: the bits from f·b to 59 of every word of a line are zero (blocked); a
//	     compact line has no more items than slots, none before the first quotient or
//	     after the last one, fingerprints that do not fall, and zeros after them; the
//	     number of a semi-sorted bucket is below 3,876, and its fingerprints do not
//	     fall; the bits between the last line and T are zero.
//	F11  What a writer keeps up: every item stands where its lookup finds it.
//	     (It cannot be checked without the keys.)
//	F12  V: a stash entry that is not free counts at least one item; has a line
//	     below n that is not above its alternate, a bucket below 8 that is below
//	     its other (0 but in blocked), and 1 ≤ fp < 2^f (0 ≤ fp in compact); is the first that the
//	     search for it meets, and so the only one of its kind; and its overflow
//	     bits, where there are such, are both set in one of its lines. Bit 63 of word 0
//	     is zero in the last 3 entries of a group.
//	F13  V: the slots in use and the counts of the stash add up to the length.
//
// # A worked example
//
// testdata/blocked-f12.mmf is sealed, has 12 lines, and so 40960 bytes: T is
// 36864, there is one chunk. Its superblock copies are alike (rows of zero bytes
// left out):
//
//	0000  4d4d 4150 464c 5452 0100 0000 0000 0000   MMAPFLTR, version 1
//	0010  0100 0000 0000 0000 0000 0000 0000 0000   generation 1, no flags
//	0030  e830 92a5 de7f 190e d5ce c00b 3d9e b6c3   UUID
//	0040  0301 0c05 0100 0000 746c 6966 7061 6d6d   sealed, blocked, f=12, b=5, XXH3; seed 0x6d6d617066696c74
//	0050  cc11 6ac4 6348 0433 0c00 0000 0000 0000   canary; 12 lines
//	0060  0003 0000 0000 0000 b801 0000 0000 0000   768 bytes; capacity 440
//	0070  2008 90a1 6307 653f 6666 6666 6666 ee3f   rate 0.002567; design load 0.95
//	0080  0c02 0000 0000 0000 0000 0000 0000 0000   524 items
//	0100  676f 6c64 656e 0000 0000 0000 0000 0000   "golden"
//	0ff0  0000 0000 0000 0000 0000 0000 d7b4 f5dc   CRC
//
// Is "key 120" in it?
//
//	h      = 0xd05162f654b9739a
//	line   = hi(h, 12)                               = 9
//	rest   = 0xc3d0a38bf8b16b38
//	bucket = rest >> 61                              = 6
//	fp     = 1 + hi(0x1e851c5fc58b59c0, 0xfff)       = 0x1e9
//	m      = 0x37f783542547041d
//	d      = 4, other = 2, o(6) = 3, o(2) = 3
//	u      = 0xc9b9c88ada89ccd3, hi(u, 12) = 9, alt = 0
//
// The home line, 9, starts at offset 33344. Its words 6 and 2 are
//
//	0xbb942f814b05b7f5   overflow bits 1011, slots 0x7f5 0x05b 0x14b 0x2f8 0xb94
//	0x8809f5253c3a21cf   overflow bits 1000, slots 0x1cf 0x3a2 0x53c 0xf52 0x809
//
// No slot is 0x1e9, and bit 3 is set in both: on to the alternate line, at
// offset 32768, whose words 6 and 2 are
//
//	0xb0d6f2f6ffd9f940   overflow bits 1011, slots 0x940 0xd9f 0x6ff 0xf2f 0x0d6
//	0x03978106b93220a0   overflow bits 0000, slots 0x0a0 0x322 0x6b9 0x810 0x397
//
// It is not there either. Its stash entry would have word 0 = 0x0200000000000000,
// for line 0 and bucket 2, and be in group 2, at offset 20608, where there is
//
//	0x0200000000000000 0x000001e900000001   line 0, bucket 2, fingerprint 0x1e9, 1 item
//
// So: maybe. (It is.)
//
// testdata/compact-f13.mmf has 9 lines. Is "key 437" in it?
//
//	h      = 0xc7c068dcdd9d4dba
//	line   = hi(h, 9)                 = 7
//	fp     = 0x05c3afc3ca87bb8a >> 51   = 0xb8, q = 0x1, rem = 0x38
//	i      = fp mod 128 = 56, o and o' = 11 and 0
//	u      = 0xf3aa70d08cc1e449, hi(u, 9) = 8, alt = 1
//
// Line 7 is at offset 33216, and has 119 bits of counts and overflow bits 0x5aa7:
//
//	0x8095a353519595ca 0xca846ba90d95c78b 0x64312deb76d94177 0x868af4db1cf9e92f
//	0xcd9ddf5af4348ed9 0x76936e1b24b655ba 0x9630c8a065c33da1 0xb54f4f7eda5e858b
//
// In its counts, bit 0 number 1 is bit 2. One bit 1 follows it, for slot 2 - 1, which
// is in bits 126 to 132: slot 1, remainder 0x5f. So the line does not hold 0xb8; but
// overflow bits 11 and 0 are set. Line 1 is at offset 32832, with overflow bits 0x0000:
//
//	0xc2c413eeedeb6ed4 0x1c302a84aa6a1900 0x542a4eb8f8db364f 0x8495c56cc975676b
//	0xfe7bcbd3efc093ff 0xa7f5b6a42c580e0f 0xba6c4229700187e4 0x0001a6d044b675d6
//
// There, bit 0 number 1 is bit 1, and again one bit 1 follows: slot 0, remainder 0x38.
// So: maybe.
//
// testdata/packed-f12.mmf has 116 lines of 48 bits, so R is 704. Is "key 3" in it?
//
//	h      = 0x56674e5a91dde079
//	line   = hi(h, 116)                 = 39
//	fp     = 1 + hi(0x26cf810a1889b6d4, 0xfff)   = 0x26d
//	u      = 0xfb2a0aaf895ba1d8, hi(u, 116) = 113, alt = 74
//
// Line 39 is the bits 1872 to 1919, of word 29, at offset 33000; line 74 the bits
// 3552 to 3599, of words 55 and 56, from offset 33208 on:
//
//	0x2553d00c62575867                      slots 0x257 0x0c6 0x3d0 0x255
//	0xc026d36bd9478e5e 0x8925f85ed48391e5   slots 0x36b 0x26d 0x5c0 0x91e
//
// So: maybe, for slot 1 of line 74. And testdata/semisorted-f13.mmf has 116 lines
// of 48 bits as well. Is "key 23" in it?
//
//	h      = 0x34d10ca932237913
//	line   = hi(h, 116)                 = 23
//	fp     = 1 + hi(0xeeb9bcaab812dc9c, 0x1fff)   = 0x1dd7
//	u      = 0x6d67c52e1bcbb492, hi(u, 116) = 49, alt = 26
//
// Line 23 is the bits 1104 to 1151, of word 17, at offset 32904; line 26 the bits
// 1248 to 1295, of words 19 and 20, from offset 32920 on:
//
//	0xae764f104171402d                      number 0x171, nibbles 1 2 5 8, slots 0x0304 0x0478 0x0bd9 0x115c
//	0xf4b09e783f8077ef 0x9e87ea64d5b8e975   number 0xe78, nibbles 6 c e f, slots 0x0d09 0x19a5 0x1dd7 0x1fd2
//
// In line 23, 1 + C(3, 2) + C(7, 3) + C(11, 4) = 1 + 3 + 35 + 330 = 0x171, and the
// rest of slot 0 is 0x104. So: maybe, for slot 2 of line 26.
//
// # The vectors
//
// testdata has images, each with a file of vectors: after a first line with the
// names of the columns, a line for each key, the columns separated by tabs.
//
//	key            in double quotes, UTF-8, with \", \\, \n and \xHH for what cannot be printed
//	hash           16 hex digits
//	line, bucket, other bucket, alternate line   decimal
//	fingerprint    0x and hex digits
//	overflow bits  2^o(bucket), a comma, 2^o(other): those of the key, whatever the file has; in compact
//	               2^o and 2^o', the lower one first; 0,0 where there are none
//	answer         true for maybe, false for certainly not
//	why            the first step of the lookup that decided: "slot of the home line",
//	               "overflow bits set: " with true or false for each of the two,
//	               "slot of the alternate line", "stash" or "nowhere"
package layout
