package layout_test

import (
	"hash/crc32"
	"math/rand/v2"
	"os"
	"testing"

	. "github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"

	"pgregory.net/rapid"
)

// readImage loads a golden image and its head.
func readImage(t testing.TB, name string) ([]byte, *Superblock, Geometry) {
	t.Helper()
	image, err := os.ReadFile("../testdata/" + name)
	must(t, err)
	_, sb, g, err := Newest(image[:OffRuntime])
	must(t, err)
	return image, sb, g
}

// TestChecksumIsCRC32C compares the checksum with that of the standard library and with the check value
// of RFC 3720.
func TestChecksumIsCRC32C(t *testing.T) {
	if sum := ChunkChecksum([]byte("123456789")); sum != 0xE3069283 {
		t.Errorf("%08X", sum)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		if got, want := ChunkChecksum(b), crc32.Checksum(b, table); got != want {
			t.Errorf("%08x, not %08x", got, want)
		}
	})
}

// TestLocateByte: LocateByte finds a single damaged byte of a chunk. If two bytes are damaged, it names
// none, unless the checksum looks like that of a single one, as for one in 250 random pairs.
func TestLocateByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	chunk := make([]byte, ChunkBytes)
	for i := range chunk {
		chunk[i] = byte(rng.Uint32())
	}
	sum := ChunkChecksum(chunk)
	for range 300 {
		i, e := rng.IntN(len(chunk)), byte(1+rng.IntN(255))
		chunk[i] ^= e
		if at, ok := LocateByte(ChunkChecksum(chunk)^sum, len(chunk)); !ok || at != i {
			t.Fatalf("byte %d is found at %d, %t", i, at, ok)
		}
		chunk[i] ^= e
	}
	named := 0
	for range 1000 {
		i, j := rng.IntN(len(chunk)/2), len(chunk)/2+rng.IntN(len(chunk)/2)
		a, b := byte(1+rng.IntN(255)), byte(1+rng.IntN(255))
		chunk[i] ^= a
		chunk[j] ^= b
		if _, ok := LocateByte(ChunkChecksum(chunk)^sum, len(chunk)); ok {
			named++
		}
		chunk[i] ^= a
		chunk[j] ^= b
	}
	if named > 20 {
		t.Errorf("of 1,000 pairs of damaged bytes, %d are taken for a single byte", named)
	}
}

// TestCheckTail covers F9: CheckTail finds each flipped bit after the region, and names its byte.
func TestCheckTail(t *testing.T) {
	image, sb, g := readImage(t, "compact-q41.mmf")
	tail := image[g.OffTable:]
	if e := CheckTail(sb, g, tail); e != nil {
		t.Fatal(e)
	}
	for bit := range 8 * len(tail) {
		tail[bit/8] ^= 1 << (bit % 8)
		off := g.OffTable + int64(bit/8)
		e := CheckTail(sb, g, tail)
		if e == nil || e.Offset != off || e.Region != g.RegionAt(off) {
			t.Fatalf("bit %d: %v", bit, e)
		}
		tail[bit/8] ^= 1 << (bit % 8)
	}
}

// FuzzCheckTail: no content of the tail of a file makes reading it panic, and only the right content
// passes.
func FuzzCheckTail(f *testing.F) {
	image, sb, g := readImage(f, "compact-q43.mmf")
	right := string(image[g.OffTable:])
	f.Add([]byte(right))
	f.Add(make([]byte, len(right)))
	f.Fuzz(func(t *testing.T, tail []byte) {
		if len(tail) != len(right) {
			return
		}
		if e := CheckTail(sb, g, tail); (e == nil) != (string(tail) == right) {
			// A different table passes if the trailer matches it: other chunks may have this tail.
			if string(tail[4*g.Chunks:]) == right[4*g.Chunks:] {
				t.Fatalf("%v", e)
			}
		}
	})
}
