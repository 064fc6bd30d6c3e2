package compact

import (
	"encoding/binary"
	"fmt"
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
		column := strings.Index(essay, "//\tf   10  11") + len("//\tf   ") + 4*(p.FingerprintBits-10)
		for i, n := range []int{p.FingerprintBits, p.BucketSize} {
			if at := column + i*len("//\tf   10  11  12  13  14  15  16  17  18  19  20  21  22\n"); string(essay[at:at+2]) != fmt.Sprint(n) {
				t.Errorf("f=%d: the table says %s, not %d", p.FingerprintBits, essay[at:at+2], n)
			}
		}
	}
	var near []string
	for _, d := range newTable(layout.LegalParams(layout.Compact)[0], 10_000).offsets {
		near = append(near, fmt.Sprint(d))
	}
	says("d(i)    = %s\n", strings.Join(near, ", "))
	image, sb, g := layouttest.Image(t, "compact-f13.mmf")
	tab := layout.NewTable(g).(*table)
	h := xxh3.HashStringSeed("key 388", sb.Seed())
	line, rest := layout.SplitHash(h, g.Lines)
	it := tab.Split(h)
	other := tab.Alternate(it)
	fp := uint64(it.Fp)
	i := fp % 16
	says("testdata/compact-f13.mmf has %d lines. Is \"key 388\" in it?", g.Lines)
	says("//\th      = %#016x\n//\tline   = hi(h, %d)                 = %d\n", h, g.Lines, line)
	says("//\trest   = %#016x\n//\tfp     = rest >> %d                 = %#x, q = %#x, rem = %#x, i = %d\n", rest, 64-tab.f, fp, fp>>tab.r, fp&tab.values, i)
	d := []uint64{1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597}[i]
	says("//\talt    = (%d + 1 + (%d mod %d)) mod %d = %d\n", line, d-1, g.Lines-1, g.Lines, other.Line)
	if alt := (line + 1 + (d-1)%(g.Lines-1)) % g.Lines; alt != other.Line {
		t.Errorf("by the essay the alternate line is %d, not %d", alt, other.Line)
	}
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
		if number == line {
			first, n := tab.run(&l, fp>>tab.r)
			if n != 1 {
				t.Fatalf("the quotient has %d items", n)
			}
			says("zero bit number %d is bit %d", fp>>tab.r, first+fp>>tab.r)
			says("slot %d, remainder %#02x", first, tab.remainder(&l, first))
			says("overflow bits %#04x", l[7]>>48)
			continue
		}
		var guests []string
		for i := range guestsOf(&l) {
			guests = append(guests, fmt.Sprintf("%#x", tab.guest(&l, i)))
		}
		says("%d guests: %s", len(guests), strings.Join(guests, ", "))
	}
}
