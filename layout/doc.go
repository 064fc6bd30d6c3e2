// Package layout defines the format of a filter file: what each byte means, how a key leads to the
// bytes that answer for it, and which rules a file must keep. The package works on bytes and words; it
// has no I/O, clock, goroutines or randomness.
//
// This essay, with the vectors in testdata, is enough to write a reader in another language. Its
// sections come in the order in which the author of a reader needs them; the rules to check when a
// file is opened, worked examples and the vectors come last. Package recovery describes how a file is
// written, and package wal (layout/wal) the format of its log.
//
// # Terms
//
// The terms come from Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter: Practically Better
// Than Bloom" (CoNEXT 2014), and from databases. Packages guard and sets define more terms.
//
//	fingerprint      a number derived from the hash of a key
//	quotient,        the two parts of a fingerprint (compact): a number below Q, and r bits
//	remainder
//	slot             room for one fingerprint
//	bucket           b slots
//	line             the unit that lookups read: in compact, 64 aligned bytes (one bucket and a list of
//	                 guests); in packed and semi-sorted, one bucket
//	superblock       4,096 bytes that describe the file; the file has four copies
//	item             a key that was inserted and not deleted. A key inserted twice is two items.
//	                 The file keeps only the fingerprint of an item.
//	home line,       the two lines in which an item may be. The hash of the key gives the
//	alternate line   home line; either line and the fingerprint in it give the other line.
//	second line      the alternate line, if a lookup reads it too
//	direction        the 4 low bits of a remainder; they give the other line of the item (compact)
//	guest            an item in its alternate line; a line keeps its guests apart (compact)
//	overflow bit     a bit of a line: if set, items with this home line may be elsewhere (compact)
//	stash            the part of the filter file for items that found no slot; it consists of entries
//	group mark       a bit of a group of the stash: if set, a search goes on to the next group
//	class            the items that a file cannot tell apart; an entry of the stash is for one class
//	region           all lines
//	load             number of items divided by number of slots
//	capacity         the number of items that a file was sized for
//	design load      the load that a file was sized for: about its load at capacity
//	turnover         as many deletes as there are items, and as many inserts
//	rate             false-positive rate: the share of absent keys for which a lookup says "maybe"
//	"maybe"          one of the two answers of a lookup; the other is "certainly not"
//	victim           an item that an insert moves to another place to make room
//	operation        one insert or one delete
//	writer, reader   the one process that has the file open for writing; any other that has it open
//	block            64 aligned bytes of the stash or the region
//	removal counter  a word that is odd while a block changes so that a lookup could miss an item
//	store            of a word: writing it
//	guarded          of a store: done while the removal counter of its block is odd
//	log              the file NAME.stash: the operations since the last checkpoint. It is not the stash.
//	kept hashes      the file NAME.hashes: the hashes of the items at one instant and of all operations since
//	history          all operations of a filter that keeps its hashes, in order, since the filter began
//	position         a place in a history: the number of operations before it, and the chain
//	chain            a word computed from all operations before a position; it tells histories apart
//	replica          a copy of a filter that follows the history of this filter by sets of changes. A
//	                 replica that keeps hashes also has a history of its own.
//	item effect      whether an operation added an item to the file, removed one, or did neither
//	left out         of a key: an InsertUnique ("at least one") found an item that answered for it
//	waiting          of a delete: it is in the history, but has removed no item
//	age              of kept hashes: items that were inserted in the same span of time
//	sharded set,     a manifest, NAME.set, and the files that the manifest names: the shards. Each
//	shard            shard has the keys of a range of hashes.
//	superseded       of a file: another file has taken its place
//	rebuild          making a new file with the items of an old one
//	replacement      the end of a rebuild: the new file becomes durable and takes the name of the old one
//	durable          survives a power loss
//	commit           making the operations so far durable, and then storing them to the file
//	segment          the part of the log that one commit makes durable
//	checkpoint       making the file itself durable, so that the log can begin anew
//	generation       the number of a superblock; a checkpoint begins a new one
//	pending          of an operation: in the log, and not yet stored to the file
//	user sequence    a number of the application; a commit makes it durable with the operations
//	fault            a load or store in a mapping where the file ends early, or its disk fails (SIGBUS)
//	clean, sealed    of a file: complete without a log; a sealed file also has checksums
//	live             of a file: a writer has logged operations since the last clean close, and may have died
//	LSN              log sequence number: the number of a record of the log
//	salt             a number that ties a log to one generation; a clean close makes the next one random
//	epoch            a word that is odd while a process recovers the file, or after a failed sync
//	promise          two words that say up to which LSN the log is durable
//	recovery         replaying the log of a writer that died
//	check            a checksum; the check of a record or a page also covers the check before it
//	counts           of a superblock copy, a page or a record: is in force; programs ignore the others
//	batch, part      several keys in one call; those of them that are looked up together
//	Direct           the code that looks up a single key, made for one file (in Go only)
//	chunk            64 KiB of a sealed file, with one checksum
//	n, b             number of lines in a file; number of slots in a bucket
//	Q, r             number of quotients; bits of a remainder (compact)
//	f                bits of a fingerprint (packed and semi-sorted)
//	R, T, S          bytes of the region; offset of the checksum table of a sealed file; shards of a set
//
// All numbers in a file are little-endian. A word is 64 bits, aligned to 8 bytes. Offsets and sizes
// are in bytes unless bits are named. Bit 0 is the lowest bit of a word. Numbers in formulas are
// natural numbers; x >> k is ⌊x / 2^k⌋, and hi(a, b), for two words, is a·b >> 64, the high half of
// the 128-bit product.
//
// # The file
//
//	0          4 superblock copies of 4,096
//	16384      runtime page, 4,096: what a writer tells readers; ignore it in a file at rest
//	20480      stash, 12,288: 192 groups of 64, each 4 entries of 16
//	32768      region: n lines, R bytes
//	…          zero bytes up to T, which is 32768 + R rounded up to a multiple of 4,096
//
// A sealed file goes on with
//
//	T          checksum table: 4 for each chunk
//	…          zero bytes up to the next multiple of 64
//	…          trailer, 64
//	…          zero bytes up to the end, the next multiple of 4,096
//
// Superblock copy i starts at 4096·i, and stash group g at 20480 + 64·g. Line i is the bits size·i to
// size·i + size-1 of the region, even if it begins inside a word. Bit j of the region is bit j mod 64
// of its word ⌊j/64⌋. For n lines
//
//	size        = 512 (compact), f·b (packed), 4·f - 4 (semi-sorted)     in bits
//	R           = roundup(⌈n·size / 8⌉, 64)
//	T           = roundup(32768 + R, 4096)
//	chunks      = ⌈(T - 16384) / 65536⌉
//	sealed size = roundup(roundup(T + 4·chunks, 64) + 64, 4096)
//
// To read files that nobody writes to, and that have no log beside them, you need only the sections up
// to the layouts of these files, the section Stash, and rules F1 to F7. (The command and testdata
// spell semi-sorted "semisorted".)
//
// # Superblock
//
//	offset size field
//	     0    8 magic "MMAPFLTR"
//	     8    4 format version: 1
//	    12    4 reserved
//	    16    8 generation, at least 1
//	    24    8 compat flags            bit 0: keeps hashes (readers test this bit); bit 1: grows by itself;
//	                                    bit 2: keeps hashes, and also follows another history
//	    32    8 read-only-compat flags  bit 0: also set if hashes are kept, so that older programs do not write;
//	                                    bit 1: is a replica without hashes: has the items of another
//	                                    filter's history up to a position; bit 2: equal to compat bit 2
//	    40    8 incompat flags          bit 0: the file is a shard
//	    48   16 UUID of the content
//	    64    1 state: 1 clean, 2 live, 3 sealed
//	    65    1 layout: 3 packed, 4 semi-sorted, 7 compact
//	    66    1 Q in compact, f in the other layouts
//	    67    1 r in compact, b in the other layouts
//	    68    1 hash function: 1 is XXH3, 64 bits, with a seed (XXH3_64bits_withSeed)
//	    69    3 reserved
//	    72    8 hash seed
//	    80    8 canary: the hash of the 17 bytes "mmapfilter canary" with that seed
//	    88    8 n, lines
//	    96    8 size of the region: R
//	   104    8 capacity: the items the file was sized for
//	   112    8 design rate: the rate it was sized for, IEEE 754 double
//	   120    8 design load: the load it was sized for, IEEE 754 double
//	   128    8 length: items in the file; may exceed the capacity
//	   136    8 log salt; means something only if live
//	   144    8 checkpoint LSN: the file has all operations up to this LSN
//	   152    8 user sequence: a number that belongs to the application
//	   160    8 operation number: operations since the user sequence was set
//	   168    8 log size; means something only if live
//	   176    8 identity of NAME.hashes; this field and the next three are 0 unless hashes are kept
//	   184    8 pages of NAME.hashes that count; 0 if some hashes are lost
//	   192    4 check of the last full page of its tail, or of its header if the tail has no full page
//	   196    4 check of the last page of its tail if this page is not full; otherwise 0
//	   200    4 number of the shard; this field and the next two are 0 unless the file is a shard
//	   204    4 S, the number of shards of its sharded set
//	   208    8 identity of the shard: computed from what it held when it was built
//	   216    8 descent: a random number of the history; this field and the next four are 0 unless hashes
//	            are kept, but a replica without hashes has the first three of them
//	   224    8 position: number of operations of the history
//	   232    8 chain over these operations
//	   240    8 left out: operations "at least one", since the base of NAME.hashes, that added no item
//	   248    8 waiting: deletes, since the base of NAME.hashes, that removed no item
//	   256  256 key normalisation: a note, in UTF-8, on how the program prepared the keys for hashing; it
//	            ends before the first zero byte. A reader that does not know what it means must show it.
//	   512    8 nanoseconds after which items expire, or 0 if they stay; 0 unless hashes are kept
//	   520    8 nanoseconds for which changes are kept (NAME.past, package recovery); 0 unless hashes are kept
//	   528    8 reserved
//	   536    8 time of the last commit, in nanoseconds since 1970; 0 unless hashes are kept
//	   544    8 a time: the last expiry has deleted all items from before it; 0 unless hashes are kept
//	   552    8 in a replica without hashes: the check of the set of changes that it is applying, or
//	            2^64 - 1 if it has had operations of its own; otherwise 0
//	   560    8 descent of the other history that a replica with hashes follows; this field and the next
//	            three are 0 in any other file
//	   568    8 position in the other history: number of its operations. Once the replica has had an
//	            operation of its own, a time instead: that of this operation, or 0 if the replica had no
//	            changes before. Items with earlier times in NAME.hashes may have come as late as then.
//	   576    8 chain over the operations of the other history
//	   584    8 as the field at 552, in a replica with hashes
//	   592 3500 reserved
//	  4092    4 CRC32C of bytes 0 to 4091
//
// A reader takes the intact copy with the highest generation (rules F1 and F2 below), and
// then looks at its state:
//
//	clean    No operation has been logged since the file was last closed. The file is complete. It may
//	         still have the size of a sealed file; bytes from T on mean nothing.
//	sealed   As clean; and the file has not been written to since its checksums were computed.
//	live     Operations have been logged. If a writer has the file open, read it as "Reading beside a
//	         writer" says. If the writer died, the log must be replayed before the file is read, and
//	         until then the only right answer is "maybe".
//
// Locks show whether a live file has a writer. On Linux a writer holds write locks of one byte each
// (F_OFD_SETLK) on byte 0 of the file and, once the file needs no recovery, on byte 1. A reader tests
// for them with F_OFD_GETLK and a read lock. If byte 1 is locked, read the file beside its writer. If
// only byte 0 is locked, a process is recovering the file or is about to: answer "maybe" and test
// again. If neither byte is locked, read the superblocks again, because a writer may have closed the
// file in between; if the state is still live, the writer died. On other systems there is one lock, on
// the whole file.
//
// If byte 1 is not locked and the state is clean or sealed, look for NAME.stash and NAME.stash.new as
// well. If one of them is the log of this file and has operations of a later generation (L2 in package
// wal), a superblock with state live has been lost: answer "maybe". A header of the next generation
// alone does not prove this, since the writer may have died before the first operation. A header that
// is two generations later does.
//
// A file that keeps its hashes has NAME.hashes beside it: see package hashes (layout/hashes). Lookups
// do not need it. A program that does not know NAME.hashes may read the filter, but must not write to
// it.
//
// Only writers need the fields from offset 136 to 199, from 216 to 255, from 512 to 527 and from 536
// to 591. If a reader knows that nobody writes to the file while the reader has it open, it can ignore
// the runtime page too. Any other reader must follow "Reading beside a writer", even if the state is
// clean or sealed, because a writer may come later. Before a writer stores anything else to the file,
// it makes a superblock with state live durable. So if a reader copies a file, and then finds its
// first 16,384 bytes unchanged, with state clean or sealed, it has a copy of a file at rest.
//
// The checksum is CRC32C, the CRC of iSCSI: polynomial 0x1EDC6F41, reflected, initial value
// and final XOR 0xFFFFFFFF. The CRC of "123456789" is 0xE3069283.
//
// # From a key to its lines
//
//	g       = XXH3_64bits_withSeed(key, seed)           the hash of the key
//	h       = g·S mod 2^64 in a shard; g in any other file
//	line    = hi(h, n)                                  the home line
//	rest    = h·n mod 2^64
//
// In a shard, the answer is "certainly not" if hi(g, S) is not the number of the shard. (XXH3 is
// specified in doc/xxhash_spec.md of github.com/Cyan4973/xxHash.) The home line is uniform in [0, n)
// for every n, whether or not n is a power of two. The top bits of rest depend on bits of the hash
// that did not choose the line. The fingerprint, fp, is computed from rest: see each layout. In all
// layouts but compact,
//
//	m       = fp · 0x9E3779B97F4A7C15 mod 2^64
//	u       = (m xor (m >> 32)) · 0xBB67AE8584CAA73B mod 2^64
//	alt     = (hi(u, n) + n - line) mod n               the alternate line
//
// The alternate line of alt is line again. If alt = line, the item has only one line.
//
// # Compact
//
// A line is one bucket of items at home and a list of guests: items whose home is another line.
// (Package compact has the alternatives, and the reasons for this one.)
//
// Its parameters are the number of quotients, Q from 16 to 64, and the bits of a remainder, r from 4
// to 26; there are at most 2^31 fingerprints, Q·2^r. With w, the number of bits that a quotient takes,
//
//	w       = ⌈log2 Q⌉
//	b       = ⌊(491 - Q - w) / (r + 1)⌋
//	fp      = hi(rest, Q·2^r)                            may be 0
//	q       = fp >> r                                    the quotient, 0 to Q - 1
//	rem     = fp mod 2^r                                 the remainder
//	i       = fp mod 16                                  the direction
//	d(i)    = 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597
//	                                                     for i = 0, 1, 2, … 15
//
// The alternate line lies in the direction of the fingerprint, and is never the home line:
//
//	alt     = (line + 1 + ((d(i) - 1) mod (n - 1))) mod n
//
// If n is 1, there is no alternate line, and a lookup goes on with the stash. A line is
//
//	bit 511        496      492           1+Q+b+r·k        1+Q+b              0
//	    ┌──────────┬────────┬────────┬──────┬─────┬───────────┬───────────────┐
//	    │ overflow │ number │ guests │ zero │  …  │ remainder │ counts of Q   │
//	    │ bits     │ of     │ 0, 1,  │ bits │     │ of slot 0 │ quotients     │
//	    │ 15…0     │ guests │ 2, …   │      │     │           │               │
//	    └──────────┴────────┴────────┴──────┴─────┴───────────┴───────────────┘
//
// The remainder of slot s is the r bits of the line from bit 1+Q+b + r·s on, and may span two words;
// guest j is the w+r bits from bit 492 - (w+r)·(j+1) on. Overflow bit i is bit 496 + i.
//
// The slots of a line hold the fingerprints of the items at home, in ascending order; several may be
// equal. If k items are at home, k ≤ b, slots 0 to k-1 are in use. A slot holds only the remainder.
// The counts give the quotients, in unary: for each quotient from 0 to Q-1, a 0 bit, and then a 1 bit
// for each item that has this quotient. So the counts take k + Q bits. All bits between the counts and
// the remainder of slot 0 are 0, and there is at least one such bit. Guests are whole fingerprints,
// also in ascending order. All bits between the slots in use and the last guest are 0.
//
// To look for fp at home: let z be the position of 0 bit number q of the counts, where the first 0 bit
// has number 0. The 1 bits that follow it, up to the next 0 bit, stand for the slots from z - q on.
// The line holds fp at home if one of these slots has the remainder rem.
//
// An item is in its home line, at home; or in its alternate line, as a guest; or in the stash. In a
// file at rest, overflow bit i of a line is set if and only if some item with this home line and
// direction i is a guest or in the stash. (A writer sets the bit before such an item leaves its home
// line.) A lookup uses only the overflow bits of the home line:
//
//  1. If the home line holds fp at home: maybe.
//  2. Unless overflow bit i is set in the home line: certainly not.
//  3. If the alternate line has the guest fp: maybe.
//  4. If the stash has an entry for the item, with its home line and a count of at least 1:
//     maybe. Otherwise: certainly not.
//
// # Packed and semi-sorted
//
// These are the two layouts of the paper. A line is one bucket, and has no overflow bits.
//
//	packed        f of 4 to 32    b of 1, 2, 4 or 8
//	semi-sorted   f of 5 to 32    b = 4
//
//	fp      = 1 + hi(rest, 2^f - 1)
//
// An item is in any slot of its home line or of its alternate line, or in the stash:
//
//  1. If a slot of the home line or of the alternate line holds fp: maybe.
//  2. If the stash has an entry for the item, with a count of at least 1: maybe.
//     Otherwise: certainly not.
//
// A packed bucket consists of its slots, one after the other:
//
//	bit f·b-1                       0
//	    ┌──────────┬─────┬───────────┐
//	    │ slot b-1 │  …  │  slot 0   │
//	    └──────────┴─────┴───────────┘
//
// A semi-sorted bucket holds the fingerprints of its 4 slots, with 0 for an empty slot, in ascending
// order. The four highest bits of a fingerprint are its nibble, the other f-4 bits its tail:
//
//	bit 4·f-5                                        12 11          0
//	    ┌───────────┬───────────┬───────────┬──────────┬─────────────┐
//	    │ tail of   │ tail of   │ tail of   │ tail of  │ number of   │
//	    │ slot 3    │ slot 2    │ slot 1    │ slot 0   │ the nibbles │
//	    └───────────┴───────────┴───────────┴──────────┴─────────────┘
//
// The nibbles are in ascending order, p ≤ q ≤ r ≤ s. There are C(19, 4) = 3,876 such
// sequences, where C is the binomial coefficient. The number of a sequence is
//
//	p + C(q+1, 2) + C(r+2, 3) + C(s+3, 4)
//
// for the nibbles p, q, r and s of slots 0 to 3. To decode number x: s is the greatest number with
// C(s+3, 4) ≤ x. Subtract C(s+3, 4), and find r with C(r+2, 3) in the same way, then q with C(q+1, 2).
// What is left is p. Slot j is nibble · 2^(f-4) + tail, and its tail is the f-4 bits of the bucket
// from bit 12 + j·(f-4) on. Slots with equal nibbles are in ascending order of their tails. Numbers
// from 3,876 on stand for no fingerprints. They occur in damaged buckets, and in buckets that are read
// while they change: check a number before you use it as an index.
//
// # Stash
//
// An entry counts the items of one class: those with the same two lines and the same fingerprint or,
// in compact, with the same home line and the same fingerprint. It is two words:
//
//	word 0   bits 0-55: the lower of the two lines, in compact the home line; bits 56-62: zero
//	word 1   bits 0-31: number of items, at least 1; bits 32-63: the fingerprint
//
// Bit 63 of word 0 is not part of the entry: mask it out before anything else. In the first of the 4
// entries of a group it is the group mark; in the other three it is zero. A free entry has zeros in
// both words. A lookup computes word 0 of the entry that it looks for, and begins at group
//
//	hi(((word 0 xor (fp · 0xBB67AE8584CAA73B mod 2^64)) · 0x9E3779B97F4A7C15) mod 2^64, 192)
//
// The entry is found if one of the 4 entries of the group has this word 0, this fingerprint and a count
// of at least 1. If none has, and the group is marked, the lookup goes on to the next group; group 0
// follows group 191. After a group that is not marked, or after all 192 groups, there is no such entry.
//
// # Reading beside a writer
//
// A writer stores whole words, atomically. It orders its stores so that every item is in one of its
// places at every instant, with one exception: an item that moves within a block of 64 bytes. A lookup
// that reads several words may still miss an item that moves meanwhile, from a place that the lookup
// has yet to read to a place that it has read. The runtime page tells when this is possible:
//
//	16384      recovery epoch, a word: odd while a process recovers the file, and before
//	           that if a sync has failed; all bits are set when another file takes the
//	           place of this one
//	16448      removal counter of the stash, a word
//	16512      promise: an LSN and its check, a word each; then a second promise
//	18432      removal counters of the region, 256 words
//
// The rest of the page is zero. Block i of the region, the 64 bytes from 64·i on, has counter i mod
// 256. A line that spans two blocks has two counters. A counter becomes odd before a word of its
// blocks loses a fingerprint. It becomes even again, and higher, once all words that change in the
// same operation are stored. The counter does the same when a compact line changes, unless only
// overflow bits change, and when a semi-sorted bucket that spans several words changes. (Slots of a
// packed bucket are independent of each other: there, a store that only adds hides nothing.)
//
// The answer "maybe" needs no check. "Certainly not" holds only if the epoch and the
// counters of all places that the lookup read
//
//   - were loaded before the first word of any of these places,
//   - were even then, and
//   - have the same values when loaded again at the end.
//
// The places are the home line, and the alternate line and the stash if the lookup read them; the
// order in which they are read does not matter. If a condition fails, the reader tries again, or
// answers "maybe". A lookup that began with the home line alone, and needs more, starts again, with
// the counters of all three places.
//
// Layout, its parameters, n and seed never change in a file, so a reader needs the superblocks only
// when it opens it. It need not notice that the writer dies: the file keeps what was committed, and
// where a counter was left odd, or while the epoch is odd, lookups answer "maybe".
// If a live file has no writer when it is opened, the reader may keep it open, answer "maybe", and
// test the locks again later: recovery repairs this same file. If a file is superseded, or another
// file has its name, it gets no more items: open the name again.
//
// Each word is loaded by one atomic load of 8 bytes. The loads of the places must come after the first
// loads of the counters and before the second ones. So make the first loads of the counters, and the
// loads of the places, acquire loads; or put an acquire fence after each of these two groups of loads.
// A language that has neither should read only files that nobody writes to.
//
// # Reading without a mapping
//
// A reader that can only read parts of a file, as over a network, reads the first 32,768 bytes when it
// opens a file: superblocks, runtime page and stash. It can use only clean and sealed files, because
// it cannot see in time what a writer does. It needs no locks or counters; but if the epoch says that
// the file was superseded, every answer is "maybe". A line of compact is the 64 bytes from 32768 +
// 64·line on: one read. In the other layouts, a line is in one block of 64 bytes or in two. So in
// compact, an absent key takes one read, and a second one only if its overflow bit is set; the stash
// takes none.
//
// All reads must be of the same file. The protocol may ensure this, as If-Match does in HTTP.
// Otherwise the reader later reads 64 bytes again, and compares them with what it read at first: bytes
// 0 to 63, with generation and UUID, of the superblock copy with the lowest generation other than the
// copy that counts (of several, the first). A writer stores its first superblock over this copy,
// before it changes a line. In another file these bytes differ, too.
//
// If a read fails or is short, the answer is "maybe". If the file has become longer, it is another
// file.
//
// # Checksums of a sealed file
//
// Only a full verification reads what follows T. A chunk is 65,536 bytes, counted from offset 16384;
// the last one ends at T and may be shorter. Entry i of the checksum table is the CRC32C of
// chunk i. The superblocks belong to no chunk; each has its own CRC. The trailer is
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
// # Rules
//
// Errors name the rule that a file breaks. A full verification checks the rules marked V; the other
// rules are checked whenever a file is opened. The rules of the log, L1 to L5, are in package wal.
//
//	F1   The file has at least 16,384 bytes. A superblock copy is intact if it has the magic and the CRC
//	     of its bytes. At least one is intact. Magic, CRC, version, generation and flags stay where they
//	     are in every future version. V: in a sealed file every copy equals the copy that counts; or is
//	     intact with a lower generation; or is 4,096 zero bytes; or has the magic and a CRC of 0,
//	     because its writer was killed while storing it.
//	F2   Of the intact copies the one with the highest generation counts, and no other, whatever is
//	     wrong with it; of several such copies, the first. Its generation is at least 1. F3 to F7 are
//	     about this copy alone.
//	F3   The version is 1, and no unknown incompat flag is set. A greater version or such a flag is not
//	     damage: the file needs a newer program, and the error says so. If a read-only-compat flag is
//	     unknown, do not write to the file. Ignore unknown compat flags.
//	F4   The reserved bytes of a superblock (12 to 15, 69 to 71, 528 to 535, 592 to 4091) are zero
//	     unless an unknown compat flag is set. (Unknown flags of the other two kinds allow no other
//	     values.) Bytes 176 to 199, 216 to 255, 512 to 527 and 536 to 551 are zero unless hashes are
//	     kept; but a replica without hashes may use 216 to 239. Bytes 552 to 559 are zero unless the
//	     file is a replica without hashes, 560 to 591 unless it is a replica with hashes, and 200 to 215
//	     unless it is a shard. A shard's number is below S.
//	F5   The hash function is known; with the seed of the file it gives the canary.
//	F6   The layout is known, and allows the parameters; 1 ≤ n; n·size ≤ 2^48; the size of the region is
//	     R; 0 < design rate < 1; 0 < design load ≤ 1; the capacity is at most the number of slots. A
//	     sealed file has the sealed size, any other that size or T. A hash has enough bits for shard,
//	     line and fingerprint, and 2 to spare: ⌈log2 S⌉ + ⌈log2 n⌉ + x + 2 ≤ 64, where x is 1 +
//	     ⌈log2(Q·2^r)⌉ in compact and f in the other layouts, and ⌈log2 S⌉ is 0 unless the file is a
//	     shard.
//	F7   The state is 1, 2 or 3. (Checked before F6.)
//	F8   V: every chunk of a sealed file has the CRC that the checksum table has for it.
//	F9   V: every field of the trailer of a sealed file has the value given above; the bytes between
//	     checksum table and trailer, and after the trailer, are zero.
//	F10  V: a compact line has at most b items at home; its counts begin with a 0 bit, and have Q of
//	     them; its fingerprints and its guests are in ascending order; its guests have quotients below
//	     Q, and all have room; the bits between slots and guests are 0. The number of a semi-sorted
//	     bucket is below 3,876, and its fingerprints are in ascending order. The bits between the last
//	     line and T are 0.
//	F11  Every item is where its lookup finds it. Writers keep this rule. Only one part of it can be
//	     checked without the keys. V: the overflow bit of a guest is set in its home line (compact).
//	F12  V: a stash entry that is not free counts at least one item. Its line is below n and, except in
//	     compact, not above its alternate line; bits 56 to 62 of word 0 are zero; 1 ≤ fp < 2^f (in
//	     compact, 0 ≤ fp < Q·2^r); the search for its class finds this entry first, so no other entry
//	     has this class; and in compact, its overflow bit is set in its home line. Bit 63 of word 0 is
//	     zero in the last 3 entries of a group.
//	F13  The length of a sealed file is at most its number of slots plus 768·(2^32 - 1), as the stash
//	     has 768 entries. V: slots in use, guests and the counts in the stash add up to the length.
//
// # Worked examples
//
// testdata/compact-q41.mmf is sealed. With 9 lines it has 40960 bytes: T is 36864, and there is one
// chunk. Its superblock copies are equal (rows of zero bytes are not shown):
//
//	0000  4d4d 4150 464c 5452 0100 0000 0000 0000   MMAPFLTR, version 1
//	0010  0100 0000 0000 0000 0000 0000 0000 0000   generation 1, no flags
//	0030  bd1b 7262 8646 49c0 4b15 4c01 4f16 4238   UUID
//	0040  0307 2907 0100 0000 746c 6966 7061 6d6d   sealed, compact, Q=41, r=7, XXH3; seed 0x6d6d617066696c74
//	0050  cc11 6ac4 6348 0433 0900 0000 0000 0000   canary; 9 lines
//	0060  4002 0000 0000 0000 b801 0000 0000 0000   576 bytes; capacity 440
//	0070  1aff 47ec 7e4a 843f 6666 6666 6666 ee3f   rate 0.009907; design load 0.95
//	0080  3402 0000 0000 0000 0000 0000 0000 0000   564 items
//	0100  676f 6c64 656e 0000 0000 0000 0000 0000   "golden"
//	0ff0  0000 0000 0000 0000 0000 0000 fd92 2e5e   CRC
//
// With Q=41 and r=7, w is 6 and b is 55. Is "key 27" in the filter?
//
//	h      = 0x9b502cbfd6fbfda4
//	line   = hi(h, 9)                 = 5
//	rest   = 0x75d192be8edbeac4
//	fp     = hi(rest, 5248)           = 0x96f, q = 0x12, rem = 0x6f, i = 15
//	alt    = (5 + 1 + (1596 mod 8)) mod 9 = 1
//
// Line 5 is at offset 33088. It has 97 bits of counts, and its overflow bits are 0x8cba:
//
//	0xc8d0130aba989484 0xa67c1c20bfffffff 0x03bcb0327d0b938b 0x3b0c0f04101822ca
//	0x1e3c78f1e3c78f1e 0x8f1e3c78f1e3c78f 0xc78f1e3c78f1e3c7 0x8cba00035c78f1e3
//
// In its counts, 0 bit number 18 is bit 30. Exactly one 1 bit follows it, for slot 30 - 18 = 12, which
// is in bits 181 to 187 and has remainder 0x1d. So the line does not hold 0x96f at home; but overflow
// bit 15 is set. Line 1 is at offset 32832:
//
//	0x365818e43ddbedb8 0x1337d92c0030d8ab 0xb35a284b582929fa 0x21afca4d14e2740c
//	0xd9323e81b048d112 0xae41d9c3f04076df 0x751018a0ce39e287 0x0000600a833c1d01
//
// It has 6 guests: 0x15, 0xcf, 0xe8, 0x175, 0x203, 0x283. None is 0x96f. An entry of the item in the
// stash would have word 0 = 0x5. The search for it begins at group 12, at offset 21248, and finds
//
//	0x0000000000000005 0x0000096f00000001   line 5, fingerprint 0x96f, 1 item
//
// So the answer is "maybe". (The key is in the filter.)
//
// testdata/packed-f12.mmf has 116 lines of 48 bits, so R is 704. Is "key 3" in this filter?
//
//	h      = 0x56674e5a91dde079
//	line   = hi(h, 116)                 = 39
//	rest   = 0x26cf810a1889b6d4
//	fp     = 1 + hi(rest, 0xfff)        = 0x26d
//	u      = 0xfb2a0aaf895ba1d8, hi(u, 116) = 113, alt = 74
//
// Line 39 is bits 1872 to 1919, in word 29, at offset 33000; line 74 is bits 3552 to 3599, in words 55
// and 56, from offset 33208 on:
//
//	0x2553d00c62575867                      slots 0x257 0x0c6 0x3d0 0x255
//	0xc026d36bd9478e5e 0x8925f85ed48391e5   slots 0x36b 0x26d 0x5c0 0x91e
//
// Slot 1 of line 74 has 0x26d, so the answer is "maybe". testdata/semisorted-f13.mmf has 116 lines of
// 48 bits as well. Is "key 23" in this filter?
//
//	h      = 0x34d10ca932237913
//	line   = hi(h, 116)                 = 23
//	rest   = 0xeeb9bcaab812dc9c
//	fp     = 1 + hi(rest, 0x1fff)       = 0x1dd7
//	u      = 0x6d67c52e1bcbb492, hi(u, 116) = 49, alt = 26
//
// Line 23 is bits 1104 to 1151, in word 17, at offset 32904; line 26 is bits 1248 to 1295, in words 19
// and 20, from offset 32920 on:
//
//	0xae764f104171402d                      number 0x171, nibbles 1 2 5 8, slots 0x0304 0x0478 0x0bd9 0x115c
//	0xf4b09e783f8077ef 0x9e87ea64d5b8e975   number 0xe78, nibbles 6 c e f, slots 0x0d09 0x19a5 0x1dd7 0x1fd2
//
// In line 23, 1 + C(3, 2) + C(7, 3) + C(11, 4) = 1 + 3 + 35 + 330 = 0x171, and the tail of slot 0 is
// 0x104. Slot 2 of line 26 has 0x1dd7, so the answer is "maybe".
//
// # The vectors
//
// testdata has images of files, each with a file of vectors. (testdata/live has none, and kept.vectors
// belongs to package hashes.) A file of vectors names its columns in the first line; each further line
// is about one key. Columns are separated by tabs. In order, they are
//
//	key            the bytes in double quotes: UTF-8 as it is, and \", \\, \n and \xHH for any other byte
//	hash           16 hex digits (in a shard, g)
//	line           decimal
//	fingerprint    0x and hex digits
//	alternate line decimal
//	overflow bit   2^i for direction i, whether or not the bit is set; 0 in packed and semi-sorted
//	answer         true for maybe, false for certainly not
//	why            the first step of the lookup that decided: "slot of the home line", "overflow bit not
//	               set" (in compact), "slot of the alternate line", "stash" or "nowhere"; in a shard,
//	               "another shard", with zeros for line to overflow bit
//
// # Versions
//
// A program reads files of its own version and of all earlier versions. A later program may add to a
// file of version 1:
//
//   - A field in reserved bytes, with a new flag (F3). The flag is a compat flag if older programs may
//     read and write without regard to the field, a read-only-compat flag if they may only read, and
//     an incompat flag if they may do neither.
//   - A layout with a new number, or new parameters of a layout. Older programs refuse the file (F6).
//   - A new file beside the filter, which older programs do not open.
//
// Any other change takes a new version number, which older programs refuse (F3), with an error that
// says so. Newer programs go on reading version 1. Magic, CRC, version, generation and flags stay
// where they are. The number of a layout, a flag or a rule never gets a second meaning.
//
// The layouts 1, 2, 5 and 6 were dropped before version 1 was final.
package layout
