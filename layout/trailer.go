package layout

import (
	"encoding/binary"

	"github.com/klauspost/crc32"
)

// The end of a sealed file: the checksum table, with a CRC32C for each chunk of
// 64 KiB from OffRuntime to OffTable; zero bytes up to a multiple of 64; the
// trailer, with the checksum of the table; and zero bytes up to the end of a page.

var trailerMagic = [8]byte{'M', 'M', 'A', 'P', 'F', 'S', 'U', 'M'}

const (
	offTrailerMagic      = 0
	offTrailerVersion    = 8
	offTrailerChunkBytes = 12
	offTrailerChunks     = 16
	offTrailerGeneration = 24
	offTrailerUUID       = 32
	offTrailerTableCRC   = 48
	offTrailerCRC        = trailerBytes - 4
)

// ChunkChecksum returns the CRC32C of the bytes of a chunk.
func ChunkChecksum(chunk []byte) uint32 { return crc32.Checksum(chunk, castagnoli) }

// PutChecksum stores the checksum of chunk i in the table of checksums.
func PutChecksum(table []byte, i int64, sum uint32) {
	binary.LittleEndian.PutUint32(table[4*i:], sum)
}

// Checksum returns the checksum of chunk i from the table of checksums.
func Checksum(table []byte, i int64) uint32 { return binary.LittleEndian.Uint32(table[4*i:]) }

// Trailer returns the trailer of a sealed file that has this superblock and this table
// of checksums.
func Trailer(sb *Superblock, g Geometry, table []byte) (t [trailerBytes]byte) {
	uuid := sb.UUID()
	copy(t[offTrailerMagic:], trailerMagic[:])
	binary.LittleEndian.PutUint32(t[offTrailerVersion:], formatVersion)
	binary.LittleEndian.PutUint32(t[offTrailerChunkBytes:], chunkBytes)
	binary.LittleEndian.PutUint64(t[offTrailerChunks:], uint64(g.Chunks))
	binary.LittleEndian.PutUint64(t[offTrailerGeneration:], sb.Generation())
	copy(t[offTrailerUUID:], uuid[:])
	binary.LittleEndian.PutUint32(t[offTrailerTableCRC:], ChunkChecksum(table))
	binary.LittleEndian.PutUint32(t[offTrailerCRC:], ChunkChecksum(t[:offTrailerCRC]))
	return t
}

// CheckTail checks the end of a sealed file, from OffTable on, against F9: it must have
// the trailer that follows from its superblock and its table, with zero bytes around it.
// The offset of the error is the first wrong byte or, if several bytes of the table are
// damaged, the start of the table.
func CheckTail(sb *Superblock, g Geometry, tail []byte) *CorruptError {
	table := tail[:4*g.Chunks]
	at := g.OffTrailer - g.OffTable
	trailer := tail[at : at+trailerBytes]
	stored := binary.LittleEndian.Uint32(trailer[offTrailerTableCRC:])
	whole := binary.LittleEndian.Uint32(trailer[offTrailerCRC:]) == ChunkChecksum(trailer[:offTrailerCRC])
	if sum := ChunkChecksum(table); whole && sum != stored {
		off, _ := locateByte(sum^stored, len(table))
		return corrupt(RegionChecksums, g.OffTable+int64(off), "F9", "the table has CRC %08x, but the trailer says %08x", sum, stored)
	}
	want := Trailer(sb, g, table)
	for i, b := range trailer {
		if b != want[i] {
			return corrupt(RegionTrailer, g.OffTrailer+int64(i), "F9", "byte %d of the trailer is %#02x, not %#02x", i, b, want[i])
		}
	}
	for i, b := range tail {
		off := int64(i)
		if b != 0 && (off >= int64(len(table)) && off < at || off >= at+trailerBytes) {
			return corrupt(RegionTrailer, g.OffTable+off, "F9", "a padding byte is %#02x, not 0", b)
		}
	}
	return nil
}

// CheckChunk checks chunk i against its stored checksum (F8). The offset of the error is
// the damaged byte if one byte explains the difference, and otherwise the start of the
// chunk.
func CheckChunk(g Geometry, i int64, chunk []byte, stored uint32) *CorruptError {
	sum := ChunkChecksum(chunk)
	if sum == stored {
		return nil
	}
	start, end := g.Chunk(i)
	off, one := locateByte(sum^stored, len(chunk))
	where := start + int64(off)
	if !one {
		parts := RegionBuckets
		if start == OffRuntime {
			parts = RegionRuntime + ", " + RegionStash + ", " + RegionBuckets
		}
		return corrupt(g.RegionAt(where), where, "F8", "somewhere from %d to %d (%s): these bytes have CRC %08x, but the table says %08x", start, end-1, parts, sum, stored)
	}
	return corrupt(g.RegionAt(where), where, "F8", "the bytes %d to %d have CRC %08x, but the table says %08x", start, end, sum, stored)
}

// locateByte finds the byte whose damage alone changes the CRC32C of n bytes by diff. CRC is
// linear: if byte i is damaged by e, diff is the CRC register after e and n-1-i zero bytes,
// whatever the other bytes are. So locateByte takes the register back by one zero byte at a
// time. Each time it checks whether damage of a single byte gives this register. If this is so
// for no position, or for several, locateByte returns 0 and false.
func locateByte(diff uint32, n int) (i int, ok bool) {
	var byTop [256]byte // for each top byte, the only entry of castagnoli that has it
	for e, r := range castagnoli {
		byTop[r>>24] = byte(e)
	}
	for at := n - 1; at >= 0; at-- {
		e := byTop[diff>>24]
		if castagnoli[e] == diff {
			if ok {
				return 0, false
			}
			i, ok = at, true
		}
		diff = (diff^castagnoli[e])<<8 | uint32(e)
	}
	return i, ok
}
