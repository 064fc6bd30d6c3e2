package wal

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A checker computes checksums of words. It is the buffer for their bytes: a local buffer
// would escape to package crc32 and cost an allocation for every record.
type checker [PageBytes]byte

var checkers = sync.Pool{New: func() any { return new(checker) }}

// record returns the check of a record: the CRC32C of all that the package essay names.
// words is the record without its last word.
func (c *checker) record(salt, lsn uint64, prev uint32, words []uint64, operation uint32) uint32 {
	binary.LittleEndian.PutUint64(c[0:], salt)
	binary.LittleEndian.PutUint64(c[8:], lsn)
	binary.LittleEndian.PutUint64(c[16:], words[0])
	binary.LittleEndian.PutUint64(c[24:], words[1])
	binary.LittleEndian.PutUint32(c[32:], prev)
	binary.LittleEndian.PutUint32(c[36:], operation)
	n := 40
	for _, w := range words[2:] {
		binary.LittleEndian.PutUint64(c[n:], w)
		n += 8
	}
	return crc32.Checksum(c[:n], castagnoli)
}

// words returns the CRC32C of words, little-endian.
func (c *checker) words(words ...uint64) (crc uint32) {
	for len(words) > 0 {
		n := min(len(words), PageWords)
		for i, w := range words[:n] {
			binary.LittleEndian.PutUint64(c[8*i:], w)
		}
		crc = crc32.Update(crc, castagnoli, c[:8*n])
		words = words[n:]
	}
	return crc
}
