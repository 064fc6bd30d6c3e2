// Package changes defines the format in which a filter tells another filter how its keys have changed
// from one position of its history to a later one. At each position, a history means a multiset of
// hashes (K7 in package hashes). The changes say for each hash how many copies more or fewer the later
// multiset has. A key that came and went in between is not among the changes.
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
//	         24  8 number of the first position, from which the changes lead
//	         32  8 its chain
//	         40  8 number of the last position, to which the changes lead
//	         48  8 its chain
//	         56  8 lines, if the changes are by class; or 0
//	         64  8 fingerprints, if the changes are by class; or 0
//	         72  8 user sequence of the filter at the last position
//	         80  8 operations since that user sequence
//	         88  4 zero
//	         92  4 check
//	block     0  4 number of changes in it, from 1 to 4,096; 0 in the end mark
//	          4  4 size of its bits in bytes, at most 163,840; 0 in the end mark
//	          8  4 k, at most 63; 0 in the end mark
//	         12  4 check
//	         16    bits
//
// The check of the header is the CRC32C of the bytes before it. In each later version, the header will
// have this size, and its magic, version and check will be in these places, so that a reader can tell
// an unknown version from damage. The check of a block or of the end mark is the CRC32C of the check
// before it (4 bytes), of its own first 12 bytes and of its bits. So a reader also notices a block
// that is swapped, missing or repeated. Nothing comes after the end mark.
//
// # Changes
//
// A change is a value and a number that is not 0: n if there are n more copies of the value, -n if
// there are n fewer. The values ascend through the whole stream, and no value comes twice. Each
// operation between the two positions adds or removes at most one item, so a filter refuses a stream
// that changes more items than there are operations.
//
// The value is a hash; or, if the header has numbers of lines and fingerprints, it is a class of a
// filter that has these numbers: hi(hash, lines · fingerprints). This value is line · fingerprints +
// fingerprint, which is all that such a filter needs to know of a hash. It is below lines ·
// fingerprints, which is less than 2^64, and so takes fewer bits than a hash. There are Q·2^r
// fingerprints in a compact filter, and 2^f - 1 in other layouts.
//
// # Bits
//
// The bits of a block are numbered from the lowest bit of its first byte. The first 64 bits are the
// value of the first change minus 1, modulo 2^64, and stand for the value before the first change.
// Each change is then the gap between its value and the value before it, at least 1, and a bit: 0 for
// more, 1 for fewer. The gap is in the Rice code with parameter k:
//
//	⌊gap / 2^k⌋ ones, a zero, and the k low bits of gap
//
// This is a change of one more or one fewer. A change of e + 1 more or fewer, with e above 0, begins
// with a gap of 0 and then an Elias code for e; the real gap and the bit follow. In the Elias code, n
// is the number of the highest bit of e that is set:
//
//	n ones, a zero, and the n low bits of e
//
// Zeros fill the last byte.
//
// The gaps between random values have a geometric distribution, for which no code of whole bits is
// much shorter than this. As k, the writer takes the binary logarithm of the mean gap of the block,
// rounded down, so on average a gap of a block has at most two ones, however uneven the gaps are.
//
// # An example
//
// In the history with descent 7, from position 40, with chain 1, to position 42, with chain 2, there
// is one more copy of 0x10, three fewer of 0x13, and one more of 0x20. (No two operations do that.)
// With spaces for the reader, the stream is
//
//	4d4d415046434847 01000000 00000000 0700000000000000
//	2800000000000000 0100000000000000 2a00000000000000 0200000000000000
//	0000000000000000 0000000000000000 0000000000000000 0000000000000000 00000000 792c2edc
//	03000000 0b000000 02000000 9b532f0a 0f00000000000000 82f805
//	00000000 00000000 00000000 2d1b0a60
//
// Here k is 2. The bits after the first 64 are, in order, 0 10 0 for a gap of 1; 0 00 and 10 0 for e =
// 2; 0 11 1 for a gap of 3; and 1110 10 0 for a gap of 13.
package changes
