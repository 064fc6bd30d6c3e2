package blocked

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
	"github.com/zeebo/xxh3"
)

// TestWorkedExample holds the worked example of the package essay against the
// image it is about.
func TestWorkedExample(t *testing.T) {
	_, says := layouttest.Essay(t)
	image, sb, g := layouttest.Image(t, "blocked-f12.mmf")
	for off := 0; off < layout.SuperblockBytes; off += 16 {
		if row := [16]byte(image[off : off+16]); row != [16]byte{} {
			text := fmt.Sprintf("//\t%04x ", off)
			for i := 0; i < 16; i += 2 {
				text += fmt.Sprintf(" %x", row[i:i+2])
			}
			says("%s", text)
		}
	}
	says("has %d lines, and so %d bytes: T is\n// %d, there is one chunk", g.Lines, len(image), g.OffTable)
	says("%d items", sb.Length())

	h := xxh3.HashStringSeed("key 120", sb.Seed())
	line, rest := layout.SplitHash(h, g.Lines)
	tab := newTable(g.Params, g.Lines)
	it := tab.Split(h)
	m, b1, b2 := tab.pair(it)
	u := (m ^ m>>32) * layout.MixSecond
	big, _ := bits.Mul64(u, g.Lines)
	other := tab.Alternate(it)
	says("//\th      = %#016x\n", h)
	says("//\tline   = hi(h, %d)                               = %d\n", g.Lines, line)
	says("//\trest   = %#016x\n", rest)
	says("//\tbucket = rest >> 61                              = %d\n", b1)
	says("//\tfp     = 1 + hi(8·rest mod 2^64, 0xfff)          = %#x\n", it.Fp)
	says("//\tm      = %#016x\n", m)
	says("//\td      = %d, other = %d, o(%d) = %d, o(%d) = %d\n", b1^b2, b2,
		b1, bits.TrailingZeros64(overflowBit(m, b1))-60, b2, bits.TrailingZeros64(overflowBit(m, b2))-60)
	says("//\tu      = %#016x, hi(u, %d) = %d, alt = %d\n", u, g.Lines, big, other.Line)
	word := func(off int64) uint64 { return binary.LittleEndian.Uint64(image[off:]) }
	for _, l := range []uint64{it.Line, other.Line} {
		off := layout.OffRegion + int64(l)*layout.LineBytes
		says("offset %d", off)
		for _, b := range []uint64{b1, b2} {
			w := word(off + int64(b)*8)
			text := fmt.Sprintf("//\t%#016x   overflow bits %04b, slots", w, w>>60)
			for i := range 5 {
				slot := w >> (12 * i) & 0xfff
				text += fmt.Sprintf(" %#03x", slot)
				if slot == uint64(it.Fp) {
					t.Errorf("slot %d of bucket %d of line %d is the fingerprint", i, b, l)
				}
			}
			says("%s\n", text)
		}
	}
	c := tab.Class(it)
	word0 := c.Line | uint64(c.Bucket)<<56
	group, _ := bits.Mul64((word0^uint64(c.Fp)*layout.MixSecond)*layout.MixFirst, 192)
	entry := layout.OffStash + 8*int64(group*8)
	says("word 0 = %#016x,\n// for line %d and bucket %d, and be in group %d, at offset %d", word0, c.Line, c.Bucket, group, entry)
	says("//\t%#016x %#016x   line %d, bucket %d, fingerprint %#x, 1 item", word(entry), word(entry+8), c.Line, c.Bucket, c.Fp)
}
