// Package layout is the file format of mmapfilter as pure functions over bytes
// and words: no files, no clock, no goroutines, no randomness. This essay, with
// the vectors in testdata, is enough to write a reader in another language.
//
// # Terms
//
// The words are those of Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo
// Filter: Practically Better Than Bloom" (CoNEXT 2014). A fingerprint is f bits
// of the hash of a key. A slot holds one fingerprint. A bucket is b slots. A
// line is 64 aligned bytes, what a processor fetches at once. An item is what
// the filter keeps of a key: its two lines, its buckets in them and its
// fingerprint. The stash holds items that found no slot. All numbers in a file
// are little-endian; all offsets and sizes are in bytes; bit 0 is the lowest.
//
// # The file
//
//	0          4 superblock slots of 4,096        the newest intact one counts
//	16384      runtime page, 4,096                what readers share with a writer; zero in a file that was built
//	20480      stash, 12,288                      768 entries of 16, in 192 groups of 64
//	32768      region: n lines of 64
//	…          zero bytes up to T, the next multiple of 4,096
//	T          a sealed file only: checksum table, 4 for each chunk
//	…          zero bytes to the next multiple of 64
//	…          trailer, 64
//	…          zero bytes to the next multiple of 4,096, which is the end of the file
//
// A chunk is 65,536 bytes, counted from 16384 on; the last one ends at T and
// may be shorter. So a sealed file of n lines has
//
//	T      = roundup(32768 + 64·n, 4096)
//	chunks = ⌈(T - 16384) / 65536⌉
//	size   = roundup(roundup(T + 4·chunks, 64) + 64, 4096)
//
// A file that is not sealed has T bytes, or the size it had when it was sealed.
//
// # Superblock
//
//	offset size field
//	     0    8 magic "MMAPFLTR"
//	     8    4 format version: 1
//	    12    4 zero
//	    16    8 generation, from 1
//	    24    8 compat flags            none is defined
//	    32    8 read-only-compat flags  none is defined
//	    40    8 incompat flags          none is defined
//	    48   16 UUID of the content
//	    64    1 state: 1 clean, 2 live, 3 sealed
//	    65    1 layout: 1 blocked (2 compact, 3 packed, 4 semi-sorted: not in version 1)
//	    66    1 f, bits a fingerprint
//	    67    1 b, slots a bucket
//	    68    1 hash: 1 is XXH3, 64 bits, with a seed (XXH3_64bits_withSeed)
//	    69    3 zero
//	    72    8 hash seed
//	    80    8 canary: the hash of the 17 bytes "mmapfilter canary"
//	    88    8 n, lines
//	    96    8 size of the region: 64·n
//	   104    8 capacity: items at the design load
//	   112    8 false-positive rate asked for, IEEE 754 double
//	   120    8 design load, items over slots, IEEE 754 double
//	   128    8 length: items in the file
//	   136    8 log salt             \
//	   144    8 checkpoint LSN        |
//	   152    8 user sequence         |  zero in a file that was built
//	   160    8 operation number      |
//	   168    8 log size             /
//	   176   80 zero
//	   256  256 key normalisation: UTF-8, filled up with zero bytes; a note of the program that made the keys
//	   512 3580 zero
//	  4092    4 CRC32C of bytes 0 to 4091
//
// CRC32C is the CRC of iSCSI (RFC 3720; the check value of "123456789" is
// E3069283).
//
// # From key to slots
//
//	h          = XXH3_64(key, seed)
//	line, rest = high and low 64 bits of the product h·n
//
// The line is uniform in [0, n) for every n, a power of two or not, and the top
// bits of rest are bits of the hash that the line did not use. Two lines with
// the fingerprint fp are each other's alternate:
//
//	m         = fp · 9E3779B97F4A7C15                          mod 2^64
//	u         = (m xor (m >> 32)) · BB67AE8584CAA73B            mod 2^64
//	H         = high 64 bits of u·n
//	alt(line) = H - line                                       mod n
//
// Where alt(line) is line, the item has that one home.
//
// The layout blocked: a line is 8 buckets, a bucket is one 64-bit word, with
// f,b one of 8,7 · 10,6 · 12,5 · 15,4 · 20,3 · 30,2.
//
//	bit 63    60 59          b·f       i·f+f-1     i·f              0
//	    ┌───────┬───────────┬───────────┬───────────┬───────────────┐
//	    │ o3…o0 │ zero      │     …     │  slot i   │      …        │
//	    └───────┴───────────┴───────────┴───────────┴───────────────┘
//
//	bucket  = rest >> 61
//	fp      = 1 + high 64 bits of ((rest << 3) mod 2^64)·(2^f - 1)     1 to 2^f - 1; 0 is an empty slot
//	other   = bucket xor (1 + ((m >> 32) mod 2^16)·7 >> 16)
//	o(B)    = (m >> (48 + 2·B)) mod 4                              for B = bucket and B = other
//
// An item may stand in any slot of the buckets bucket and other of its home
// line; or in the same two buckets of its alternate line; or in the stash. When
// it does not stand in a line that is its own, its overflow bits there are set:
// bit 60 + o(B) of the words of both its buckets. Overflow bits are never
// cleared. So a lookup is
//
//  1. look for fp in the slots of bucket and other of line: found is "maybe"
//  2. unless bit 60 + o(bucket) of word bucket and bit 60 + o(other) of word
//     other are both set: "certainly not"
//  3. look for fp in the slots of bucket and other of alt(line): found is "maybe"
//  4. look for the item in the stash: found is "maybe", otherwise "certainly not"
//
// # Stash
//
// An entry stands for all items with the same two lines, the same two buckets
// and the same fingerprint. It is two words, both zero where it is free:
//
//	word 0   bits 0-55 the lower of the two lines, bits 56-62 the lower of the two buckets
//	word 1   bits 0-31 the number of items, bits 32-63 the fingerprint
//
// Bit 63 of word 0 is no part of the entry. In the first of the 4 entries of a
// group it is the mark of the group; in the others it is zero. The entry of an
// item stands at any of the 4 places of group
//
//	high 64 bits of 192·((word 0 xor (fp · BB67AE8584CAA73B)) · 9E3779B97F4A7C15)
//
// both inner products mod 2^64; or, if that group has its mark, of the next one;
// if that has its mark as well, of the one after it, and so on; after group 191
// comes group 0.
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
//	    48    4 CRC32C of the checksum table
//	    52    8 zero
//	    60    4 CRC32C of bytes 0 to 59
//
// Entry i of the checksum table is the CRC32C of chunk i.
//
// # Rules
//
// Errors name them. Those marked V are checked by a full verification alone,
// the others whenever a file is opened.
//
//	F1   A slot is intact when it has the magic, and the CRC of its bytes. The
//	     places of the magic, the version, the generation, the flags and the
//	     CRC are the same in every version to come. V: in a sealed file every
//	     slot is blank, or intact and older, or a copy of the newest.
//	F2   Of the intact slots the one of the highest generation counts, and no
//	     other, whatever is wrong with it. Of equals, the first.
//	F3   A version above 1 or an unknown incompat flag: refuse. An unknown
//	     read-only-compat flag: do not write. An unknown compat flag: ignore.
//	F4   Reserved bytes of a superblock are zero, unless it has an unknown
//	     compat flag.
//	F5   The hash is known and gives the canary.
//	F6   The layout, f and b are known, n is at least 1, a hash has the bits
//	     for the line, the bucket, the fingerprint and 2 to spare
//	     (⌈log2 n⌉ + 3 + f + 2 ≤ 64), the region is as long as n lines and
//	     at most 2^45 bytes, the rates are between 0 and 1, and the
//	     file has the size that follows.
//	F7   The state is one of three. A live file is recovered before it is read.
//	F8   V: every chunk of a sealed file has the CRC of its entry.
//	F9   V: a sealed file has the one trailer that its superblock and its table
//	     allow; the bytes around it are zero.
//	F10  V: bits b·f to 59 of every word of a line are zero, and the bytes
//	     between the last line and T.
//	F11  An item stands in its lines, in its buckets, or in the stash; and has
//	     its overflow bits set in each line of its own that it does not stand
//	     in, if a lookup that starts there is to find it.
//	F12  V: a stash entry in use counts at least one item, has a line, a bucket
//	     and a fingerprint that an item can have, stands where it is looked
//	     for, once, and has its overflow bits set in one of its lines.
//	F13  V: the slots in use and the counts of the stash add up to the length.
//
// # A worked example
//
// testdata/blocked-f12.mmf is sealed, has 12 lines, and so 40960 bytes: T is
// 36864, there is one chunk. Its superblocks are alike:
//
//	0000  4d4d 4150 464c 5452 0100 0000 0000 0000   MMAPFLTR, version 1
//	0010  0100 0000 0000 0000 0000 0000 0000 0000   generation 1, no flags
//	0030  982d 5df2 aaef 8b5b 61dc 7ae8 4d09 a2db   UUID
//	0040  0301 0c05 0100 0000 746c 6966 7061 6d6d   sealed, blocked, f=12, b=5, XXH3; seed 6d6d617066696c74
//	0050  cc11 6ac4 6348 0433 0c00 0000 0000 0000   canary; 12 lines
//	0060  0003 0000 0000 0000 b801 0000 0000 0000   768 bytes; capacity 440
//	0070  b8cb 7edd e9ce 633f 6666 6666 6666 ee3f   rate 0.002418; design load 0.95
//	0080  cd01 0000 0000 0000 0000 0000 0000 0000   461 items
//	0100  676f 6c64 656e 0000 0000 0000 0000 0000   "golden"
//
// Is "key 4" in it?
//
//	h      = 092a7e94800b9f78
//	h·12   = 0·2^64 + 6dfdeef6008b79a0           line 0
//	bucket = 6dfdeef6008b79a0 >> 61              3
//	fp     = 1 + (6fef77b0045bcd00·fff >> 64)     6ff
//	m      = 6ff · 9E3779B97F4A7C15              e61c98c18a1a16eb
//	other  = 3 xor (1 + (98c1·7 >> 16))           6
//	o(3), o(6) = 0, 2
//
// Line 0 starts at 32768; its words 3 and 6 are
//
//	word 3   0eaad6b5c743f3f8   overflow bits 0000, slots 3f8 43f 5c7 d6b eaa
//	word 6   0d9fa619406ff54a   overflow bits 0000, slots 54a 6ff 940 a61 d9f
//
// Slot 1 of bucket 6 is 6ff: maybe. (It is.) Were it not there, the answer
// would be "certainly not", since bit 60 of word 3 is clear; if that bit and
// bit 62 of word 6 were set, line alt(0) = 4 would be next.
package layout
