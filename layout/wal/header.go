package wal

import (
	"encoding/binary"

	"github.com/klauspost/crc32"
	"github.com/zeebo/xxh3"
)

var (
	logMagic    = binary.LittleEndian.Uint64([]byte("MMAPFLOG"))
	beginMagic  = binary.LittleEndian.Uint64([]byte("MMFBEGIN"))
	commitMagic = binary.LittleEndian.Uint64([]byte("MMFCOMMT"))
)

// A Header names the file and generation that a log belongs to. The package essay has its encoding.
type Header struct {
	UUID       [16]byte
	Generation uint64 // of the superblock that names the salt
	Salt       uint64
	Bytes      int64
}

const headerWords = 8

// PutHeader stores a header in the slot of its generation. The header of the previous
// generation stays intact.
func PutHeader(store func(i, v uint64), h Header) {
	at := h.Generation % HeaderSlots * PageWords
	w := [headerWords]uint64{
		logMagic, version,
		binary.LittleEndian.Uint64(h.UUID[:8]), binary.LittleEndian.Uint64(h.UUID[8:]),
		h.Generation, h.Salt, uint64(h.Bytes),
	}
	w[7] = headerCheck(w[:])
	for i, v := range w {
		store(at+uint64(i), v)
	}
}

// FindHeader returns the header with the given UUID and salt. It reports false if the log
// belongs to another file or generation.
func FindHeader(log []uint64, uuid [16]byte, salt uint64) (h Header, ok bool) {
	for slot := range uint64(HeaderSlots) {
		if h, ok := readHeader(log, slot); ok && h.UUID == uuid && h.Salt == salt {
			return h, true
		}
	}
	return Header{}, false
}

// Headers returns the intact headers of a log.
func Headers(log []uint64) (all []Header) {
	for slot := range uint64(HeaderSlots) {
		if h, ok := readHeader(log, slot); ok {
			all = append(all, h)
		}
	}
	return all
}

// IsLog reports whether words are the beginning of a log, even of a damaged one: whether some header
// has the magic.
func IsLog(words []uint64) bool {
	for slot := range uint64(HeaderSlots) {
		if at := slot * PageWords; at < uint64(len(words)) && words[at] == logMagic {
			return true
		}
	}
	return false
}

// Owns reports whether the log has a header with the given UUID, of any generation.
func Owns(log []uint64, uuid [16]byte) bool {
	for slot := range uint64(HeaderSlots) {
		if h, ok := readHeader(log, slot); ok && h.UUID == uuid {
			return true
		}
	}
	return false
}

// Foreign reports whether the log belongs to another file, and returns the UUID of that file. The log
// belongs to another file if some header is intact, and no intact header has the UUID of this file or
// the UUID that this file gets with its next operation (L2).
func Foreign(log []uint64, uuid [16]byte) (other [16]byte, ok bool) {
	for slot := range uint64(HeaderSlots) {
		h, intact := readHeader(log, slot)
		if !intact {
			continue
		}
		if h.UUID == uuid || h.UUID == NextUUID(uuid, h.Salt) {
			return other, false
		}
		other, ok = h.UUID, true
	}
	return other, ok
}

// headerCheck returns the check of a header.
func headerCheck(w []uint64) uint64 {
	var b [8 * (headerWords - 1)]byte // goes to the heap, so it is smaller than a checker
	for i, v := range w[:headerWords-1] {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	return uint64(crc32.Checksum(b[:], castagnoli))
}

func readHeader(log []uint64, slot uint64) (h Header, ok bool) {
	at := slot * PageWords
	if at+headerWords > uint64(len(log)) {
		return h, false
	}
	w := log[at : at+headerWords]
	if w[0] != logMagic || w[1] != version || w[7] != headerCheck(w) {
		return h, false
	}
	h = Header{Generation: w[4], Salt: w[5], Bytes: int64(w[6])}
	binary.LittleEndian.PutUint64(h.UUID[:8], w[2])
	binary.LittleEndian.PutUint64(h.UUID[8:], w[3])
	return h, true
}

// Half returns the part of a log that has the segments of a generation: its first word, and the
// word after its last. words is the size of the log. One half is for even generations, the other
// for odd ones.
func Half(words, generation uint64) (from, end uint64) {
	half := (max(words, FirstWord) - FirstWord) / 2 / PageWords * PageWords
	from = FirstWord + generation%2*half
	return from, from + half
}

// NextSalt returns the salt of the generation that follows a generation with the given salt. It
// depends on that salt alone, so a recovery can compute it from the superblock, which still
// names the earlier generation.
func NextSalt(salt uint64) uint64 { return salt*0x9E3779B97F4A7C15 + 0xBB67AE8584CAA73B }

// NextUUID returns the UUID that a sealed file gets with its first operation. It is new,
// since the content changes, but derives from the old UUID and the salt of the new log, so
// that a log can be recognised as belonging to the sealed file (L2).
func NextUUID(uuid [16]byte, salt uint64) (next [16]byte) {
	return xxh3.Hash128Seed(uuid[:], salt).Bytes()
}
