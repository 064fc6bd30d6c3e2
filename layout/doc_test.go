package layout

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// TestWorkedExample holds the worked example of the package essay against the
// image it is about.
func TestWorkedExample(t *testing.T) {
	essay, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	says := func(format string, args ...any) {
		t.Helper()
		if text := fmt.Sprintf(format, args...); !strings.Contains(string(essay), text) {
			t.Errorf("the essay does not say %q", text)
		}
	}
	image, err := os.ReadFile("../testdata/blocked-f12.mmf")
	if err != nil {
		t.Fatal(err)
	}
	_, sb, g, err := Newest(image[:OffRuntime])
	if err != nil {
		t.Fatal(err)
	}
	for off := 0; off < SuperblockBytes-16; off += 16 {
		row := image[off : off+16]
		if off < 0x90 && off != 0x20 || off == 0x100 {
			text := fmt.Sprintf("//\t%04x ", off)
			for i := 0; i < 16; i += 2 {
				text += fmt.Sprintf(" %x", row[i:i+2])
			}
			says("%s", text)
		}
	}
	says("so %d bytes: T is\n// %d, there is one chunk", len(image), g.OffTable)

	h := xxh3.HashStringSeed("key 4", sb.Seed())
	line, rest := bits.Mul64(h, g.Lines)
	tab := newBlocked(g.Params, g.Lines)
	it := tab.Split(h)
	m, b1, b2 := tab.pair(it)
	says("h      = %016x\n", h)
	says("h·%d   = %d·2^64 + %016x           line %d\n", g.Lines, line, rest, it.Line)
	says("bucket = %016x >> 61              %d\n", rest, b1)
	says("(%016x·fff >> 64)     %x\n", rest<<3, it.Fp)
	says("m      = %x · 9E3779B97F4A7C15              %016x\n", it.Fp, m)
	says("%d xor (1 + (%x·7 >> 16))           %d\n", b1, m>>32&0xffff, b2)
	says("o(%d), o(%d) = %d, %d", b1, b2, bits.TrailingZeros64(overflowBit(m, b1))-60, bits.TrailingZeros64(overflowBit(m, b2))-60)
	says("line alt(%d) = %d would be next", it.Line, tab.Alternate(it).Line)
	for _, b := range []uint64{b1, b2} {
		off := OffRegion + int(line)*LineBytes + int(b)*8
		w := uint64(0)
		for i := range 8 {
			w |= uint64(image[off+i]) << (8 * i)
		}
		text := fmt.Sprintf("word %d   %016x   overflow bits %04b, slots", b, w, w>>60)
		for i := range 5 {
			text += fmt.Sprintf(" %03x", w>>(12*i)&0xfff)
		}
		says("%s\n", text)
	}
}
