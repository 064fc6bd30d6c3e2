package compact

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
	"github.com/zeebo/xxh3"
)

// TestWorkedCompact holds the worked example of a compact line against the image that
// it is about.
func TestWorkedCompact(t *testing.T) {
	essay, says := layouttest.Essay(t)
	for _, p := range layout.LegalParams(layout.Compact) {
		tab := newTable(p, 1)
		column := strings.Index(essay, "//\tf   10  11") + len("//\tf   ") + 4*(p.FingerprintBits-10)
		for i, n := range []int{p.FingerprintBits, p.BucketSize, int(tab.v)} {
			if at := column + i*len("//\tf   10  11  12  13  14  15  16  17  18  19  20  21  22\n"); string(essay[at:at+2]) != fmt.Sprint(n) {
				t.Errorf("f=%d: the table says %s, not %d", p.FingerprintBits, essay[at:at+2], n)
			}
		}
	}
	image, sb, g := layouttest.Image(t, "compact-f13.mmf")
	tab := layout.NewTable(g).(*table)
	h := xxh3.HashStringSeed("key 437", sb.Seed())
	line, rest := layout.SplitHash(h, g.Lines)
	it := tab.Split(h)
	other := tab.Alternate(it)
	fp := uint64(it.Fp)
	m := fp * layout.MixFirst
	u := (m ^ m>>32) * layout.MixSecond
	big, _ := bits.Mul64(u, g.Lines)
	says("testdata/compact-f13.mmf has %d lines. Is \"key 437\" in it?", g.Lines)
	says("//\th      = %#016x\n//\tline   = hi(h, %d)                 = %d\n", h, g.Lines, line)
	says("//\tfp     = %#016x >> %d   = %#x, q = %#x, rem = %#x\n", rest, 64-tab.f, fp, fp>>tab.r, fp&tab.values)
	i := fp % 128
	o := i % tab.v
	o2 := (o + 1 + i/tab.v) % tab.v
	if mask := tab.overflowBits(fp) >> (64 - tab.v); mask != 1<<o|1<<o2 {
		t.Errorf("overflow bits %#x, by the essay %d and %d", mask, o, o2)
	}
	says("//\ti      = fp mod 128 = %d, o and o' = %d and %d\n", i, o, o2)
	says("//\tu      = %#016x, hi(u, %d) = %d, alt = %d\n", u, g.Lines, big, other.Line)
	for _, number := range []uint64{line, other.Line} {
		var l layout.Line
		for i := range l {
			l[i] = binary.LittleEndian.Uint64(image[layout.OffRegion+64*int(number)+8*i:])
		}
		says("offset %d", layout.OffRegion+64*number)
		for i := range 2 {
			text := "//\t"
			for _, w := range l[4*i : 4*i+4] {
				text += fmt.Sprintf("%#016x ", w)
			}
			says("%s\n", strings.TrimSuffix(text, " "))
		}
		first, n := tab.run(&l, fp>>tab.r)
		if n != 1 {
			t.Fatalf("the quotient has %d items", n)
		}
		says("zero bit number %d is bit %d", fp>>tab.r, first+fp>>tab.r)
		says("slot %d, remainder %#02x", first, tab.remainder(&l, first))
		says("overflow bits %#04x", l[7]>>(64-tab.v))
	}
}
