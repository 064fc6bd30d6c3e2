// Package changes is the format in which a filter tells another one how its keys have changed from one
// position of its history to a later one. At each position, a history means a multiset of hashes (K7 in
// package hashes). The changes say for each hash how many more or fewer the later multiset has. A key
// that came and went in between is not among them.
//
// # The stream
//
// A stream is a header, blocks, and an end mark. All numbers are little-endian, offsets and sizes are in
// bytes, and the CRC is that of package layout.
//
//	header    0  8 magic "MMAPFCHG"
//	          8  4 version: 1
//	         12  4 zero
//	         16  8 descent
//	         24  8 number of the position that the changes lead away from
//	         32  8 its chain
//	         40  8 number of the position that they lead to
//	         48  8 its chain
//	         56  8 lines, of changes by class; or 0
//	         64  8 fingerprints, of changes by class; or 0
//	         72  8 user sequence of the filter at that position
//	         80  8 operations that it had counted since
//	         88  4 zero
//	         92  4 check
//	block     0  4 number of changes in it, from 1 to 4,096; of the end mark 0
//	          4  4 size of its bits in bytes, at most 163,840; of the end mark 0
//	          8  4 k, at most 63; of the end mark 0
//	         12  4 check
//	         16    bits
//
// The check of the header is the CRC32C of the bytes before it. In each later version, the header has
// this size, and its magic, version and check are in these places: a reader that does not know the
// version can tell it from damage. The check of a block or of the end
// mark is the CRC32C of the check before it (4 bytes), of its own first 12 bytes and of its bits.
// So a block that is swapped, left out or repeated is noticed, too. Nothing comes after the end
// mark.
//
// # Changes
//
// A change is a value and a number that is not 0: n if there are n more of the value, -n if there are n
// fewer. The values ascend through the whole stream, and no value comes twice. Each operation between
// the two positions adds one item or takes one away at most, so a filter takes no more changes than
// that.
//
// The value is a hash; or, if the header has lines and fingerprints, it is a class of a filter that
// has as many of both: the number hi(hash, lines · fingerprints). This number is line ·
// fingerprints + fingerprint, which is all that such a filter needs to know of a hash. A number
// below lines · fingerprints takes fewer bits than a hash. The product is less than 2^64. A compact
// filter has Q·2^r fingerprints, and the others have 2^f - 1.
//
// # Bits
//
// The bits of a block are numbered from the lowest bit of its first byte. The first 64 bits are a number
// that counts as the value before the first change: the value of this change less 1, modulo 2^64. Each
// change is then the gap between its value and the value before it, at least 1, and a bit: 0 for more, 1
// for fewer. The gap takes a code of Rice with the parameter k:
//
//	⌊gap / 2^k⌋ ones, a zero, and the k low bits of gap
//
// Such a change is of one more or one fewer. A change of e + 1 more or fewer, with e above 0, begins
// with a gap of 0 and then a code of Elias for e, where n is the number of the highest bit of e that
// is set; the real gap and the bit follow:
//
//	n ones, a zero, and the n low bits of e
//
// Zeros fill the last byte.
//
// The gaps between random values have a geometric distribution, for which no code of whole bits is much
// shorter. The writer takes for k the logarithm of the mean gap of the block, rounded down, so the gaps
// of a block have at most two ones a change, however uneven they are.
//
// # An example
//
// From operation 40, with chain 1, to operation 42, with chain 2, of the descent 7 there are one
// more of 0x10, three fewer of 0x13, and one more of 0x20. (No two operations do that.) With spaces
// for the reader:
//
//	4d4d415046434847 01000000 00000000 0700000000000000
//	2800000000000000 0100000000000000 2a00000000000000 0200000000000000
//	0000000000000000 0000000000000000 0000000000000000 0000000000000000 00000000 792c2edc
//	03000000 0b000000 02000000 9b532f0a 0f00000000000000 82f805
//	00000000 00000000 00000000 2d1b0a60
//
// k is 2. The bits after the first 64, in their order, are 0 10 0, for a gap of 1; 0 00 and 10 0, for
// e = 2; 0 11 1, for a gap of 3; 1110 10 0, for a gap of 13.
package changes
