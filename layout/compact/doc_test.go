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

// TestWorkedExample checks the worked example of the essay of package layout against its image.
func TestWorkedExample(t *testing.T) {
	_, says := layouttest.Essay(t)
	var near []string
	for _, d := range newTable(layout.Params{Quotients: 41, RemainderBits: 7}, 10_000).offsets {
		near = append(near, fmt.Sprint(d))
	}
	says("d(i)    = %s\n", strings.Join(near, ", "))
	image, sb, g := layouttest.Image(t, "compact-q41.mmf")
	for off := 0; off < layout.SuperblockBytes; off += 16 {
		if row := [16]byte(image[off : off+16]); row != [16]byte{} {
			text := fmt.Sprintf("//\t%04x ", off)
			for i := 0; i < 16; i += 2 {
				text += fmt.Sprintf(" %x", row[i:i+2])
			}
			says("%s", text)
		}
	}
	says("With %d lines it has %d bytes: T is %d, and there is one\n// chunk.", g.Lines, len(image), g.OffTable)
	says("%d items", sb.Length())

	tab := layout.NewTable(g).(*table)
	h := xxh3.HashStringSeed("key 27", sb.Seed())
	line, rest := layout.SplitHash(h, g.Lines)
	it := tab.Split(h)
	other := tab.Alternate(it)
	fp := uint64(it.Fp)
	i := fp % 16
	says("Is \"key 27\" in the filter?")
	says("//\th      = %#016x\n//\tline   = hi(h, %d)                 = %d\n", h, g.Lines, line)
	says("//\trest   = %#016x\n//\tfp     = hi(rest, %d)           = %#x, q = %#x, rem = %#x, i = %d\n", rest, tab.fingerprints, fp, fp>>tab.r, fp&tab.values, i)
	d := []uint64{1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597}[i]
	says("//\talt    = (%d + 1 + (%d mod %d)) mod %d = %d\n", line, d-1, g.Lines-1, g.Lines, other.Line)
	if alt := (line + 1 + (d-1)%(g.Lines-1)) % g.Lines; alt != other.Line {
		t.Errorf("by the formula in the essay, the alternate line is %d, not %d", alt, other.Line)
	}
	word := func(off uint64) uint64 { return binary.LittleEndian.Uint64(image[off:]) }
	for _, number := range []uint64{line, other.Line} {
		var l layout.Line
		for i := range l {
			l[i] = word(layout.OffRegion + 64*number + 8*uint64(i))
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
			says("%d bits of counts, and its overflow bits are %#04x", tab.counts, l[7]>>48)
			zero := first + fp>>tab.r
			says("0 bit number %d is bit %d", fp>>tab.r, zero)
			at := tab.counts + tab.r*first
			says("for slot %d - %d = %d, which\n// is in bits %d to %d and has remainder %#02x", zero, fp>>tab.r, first, at, at+tab.r-1, tab.remainder(&l, first))
			continue
		}
		var guests []string
		for i := range guestsOf(&l) {
			guests = append(guests, fmt.Sprintf("%#x", tab.guestAt(&l, i)))
		}
		says("%d guests: %s", len(guests), strings.Join(guests, ", "))
	}
	group, _ := bits.Mul64((line^fp*layout.MixSecond)*layout.MixFirst, 192)
	says("would have word 0 = %#x. The search for it begins at group %d, at offset %d", line, group, layout.OffStash+64*group)
	entry := uint64(0)
	for e := range uint64(4) {
		if at := layout.OffStash + 64*group + 16*e; word(at)&(1<<63-1) == line && word(at+8)>>32 == fp {
			entry = at
		}
	}
	says("//\t%#016x %#016x   line %d, fingerprint %#x, 1 item", word(entry), word(entry+8), line, fp)
}
