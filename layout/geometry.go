package layout

import (
	"fmt"
	"math/bits"
	"slices"
)

// maxRegionBytes is the largest size of a region, 32 TiB. Such a file fits into 47-bit
// addresses, so a process can map it, and the sum of two of its offsets never overflows.
const maxRegionBytes = 1 << 45

// spareHashBits is how many bits of a 64-bit hash must be left over once its line,
// bucket and fingerprint have been taken from it. The fraction that gives a fingerprint
// then has at least 4 times as many values as there are fingerprints, so no fingerprint
// is more than 1.25 times as likely as another.
const spareHashBits = 2

// A Geometry has the size of every part of a file. Only [NewGeometry] creates one, so
// every Geometry is within bounds.
type Geometry struct {
	Kind        Kind
	Params      Params
	Lines       uint64 // n
	RegionBytes int64
	OffTable    int64 // offset of the chunk checksums: end of the region, rounded up to a page
	Chunks      int64 // number of chunks, and of checksums
	OffTrailer  int64
	SealedBytes int64 // size of the file with its trailer
}

// NewGeometry returns the geometry of a file with n lines, or an error that says why
// there is no such file. It checks that no size overflows and that a hash has enough bits.
func NewGeometry(k Kind, p Params, lines uint64) (Geometry, error) {
	s := specs[k]
	if s == nil {
		return Geometry{}, fmt.Errorf("unknown layout %s", k)
	}
	if !legal(s, p) {
		return Geometry{}, fmt.Errorf("layout %s does not allow %v", k, p)
	}
	if lines == 0 {
		return Geometry{}, fmt.Errorf("a file needs at least one line")
	}
	// bits.Len64(n-1) bits tell n lines apart.
	if need := bits.Len64(lines-1) + s.ItemBits(p) + spareHashBits; need > 64 {
		return Geometry{}, fmt.Errorf("%d lines with %v need %d bits of a 64-bit hash", lines, p, need)
	}
	high, region := bits.Mul64(lines, uint64(s.LineBits(p)))
	if high != 0 || region > 8*maxRegionBytes {
		return Geometry{}, fmt.Errorf("%d lines are more than a file can hold (%d bytes)", lines, int64(maxRegionBytes))
	}
	g := Geometry{Kind: k, Params: p, Lines: lines, RegionBytes: roundUp(int64(region+7)/8, LineBytes)}
	g.OffTable = roundUp(OffRegion+g.RegionBytes, PageBytes)
	g.Chunks = (g.OffTable - OffRuntime + chunkBytes - 1) / chunkBytes
	g.OffTrailer = roundUp(g.OffTable+4*g.Chunks, trailerBytes)
	g.SealedBytes = roundUp(g.OffTrailer+trailerBytes, PageBytes)
	return g, nil
}

func legal(s *Spec, p Params) bool { return slices.Contains(s.Params, p) }

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// Slots returns the number of slots in the region.
func (g Geometry) Slots() uint64 { return g.Lines * uint64(SlotsPerLine(g.Kind, g.Params)) }

// LineOffset returns the offset in the file of the byte in which a line starts.
func (g Geometry) LineOffset(line uint64) int64 {
	return OffRegion + int64(line*uint64(LineBits(g.Kind, g.Params))/8)
}

// LineFrom returns the first line that starts at or after an offset in the file, or n
// if there is none.
func (g Geometry) LineFrom(offset int64) uint64 {
	bits := uint64(LineBits(g.Kind, g.Params))
	line := (uint64(max(offset-OffRegion, 0))*8 + bits - 1) / bits
	return min(line, g.Lines)
}

// Chunk returns the file offsets [off, end) of chunk i.
func (g Geometry) Chunk(i int64) (off, end int64) {
	off = OffRuntime + i*chunkBytes
	return off, min(off+chunkBytes, g.OffTable)
}

// ChunkOf returns the bytes of chunk i of a file.
func (g Geometry) ChunkOf(file []byte, i int64) []byte {
	off, end := g.Chunk(i)
	return file[off:end]
}

// RegionAt returns the name of the part of a sealed file that holds the byte at offset.
func (g Geometry) RegionAt(offset int64) string {
	switch {
	case offset < OffRuntime:
		return RegionSuperblock
	case offset < OffStash:
		return RegionRuntime
	case offset < OffRegion:
		return RegionStash
	case offset < g.OffTable:
		return RegionBuckets
	case offset < g.OffTable+4*g.Chunks:
		return RegionChecksums
	}
	return RegionTrailer
}

// NewView splits the words of a file, from OffRuntime on, into the parts that lookups
// read.
func NewView(words []uint64, g Geometry) View {
	const stash, region = WordStash - WordRuntime, WordRegion - WordRuntime
	return ViewOf(words[region:region+uint64(g.RegionBytes/8)], words[stash:stash+StashWords], words[:RuntimeWords])
}

// NewTable returns the Table for a geometry.
func NewTable(g Geometry) Table { return specs[g.Kind].Bind(g.Params, g.Lines) }
