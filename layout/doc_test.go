package layout

import (
	"encoding/binary"
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
			t.Errorf("the essay does not say\n%s", text)
		}
	}
	image, sb, g := readImage(t, "blocked-f12.mmf")
	for off := 0; off < SuperblockBytes; off += 16 {
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
	line, rest := SplitHash(h, g.Lines)
	tab := newBlocked(g.Params, g.Lines)
	it := tab.Split(h)
	m, b1, b2 := tab.pair(it)
	u := (m ^ m>>32) * mixSecond
	big, _ := bits.Mul64(u, g.Lines)
	other := tab.Alternate(it)
	says("//\th      = %#016x\n", h)
	says("//\tline   = hi(h, %d)                               = %d\n", g.Lines, line)
	says("//\trest   = %#016x\n", rest)
	says("//\tbucket = rest >> 61                              = %d\n", b1)
	says("//\tfp     = 1 + hi(%#016x, 0xfff)       = %#x\n", rest<<3, it.Fp)
	says("//\tm      = %#016x\n", m)
	says("//\td      = %d, other = %d, o(%d) = %d, o(%d) = %d\n", b1^b2, b2,
		b1, bits.TrailingZeros64(overflowBit(m, b1))-60, b2, bits.TrailingZeros64(overflowBit(m, b2))-60)
	says("//\tu      = %#016x, hi(u, %d) = %d, alt = %d\n", u, g.Lines, big, other.Line)
	word := func(off int64) uint64 { return binary.LittleEndian.Uint64(image[off:]) }
	for _, l := range []uint64{it.Line, other.Line} {
		off := OffRegion + int64(l)*LineBytes
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
	entry := OffStash + 8*int64(c.firstGroup())
	says("word 0 = %#016x,\n// for line %d and bucket %d, and be in group %d, at offset %d", c.word0(), c.Line, c.Bucket, c.firstGroup()/groupWords, entry)
	says("//\t%#016x %#016x   line %d, bucket %d, fingerprint %#x, 1 item", word(entry), word(entry+8), c.Line, c.Bucket, c.Fp)
}

// TestWorkedCompact holds the worked example of a compact line against the image that
// it is about.
func TestWorkedCompact(t *testing.T) {
	essay, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	says := func(format string, args ...any) {
		t.Helper()
		if text := fmt.Sprintf(format, args...); !strings.Contains(string(essay), text) {
			t.Errorf("the essay does not say\n%s", text)
		}
	}
	for _, p := range LegalParams(Compact) {
		tab := newCompact(p, 1)
		column := strings.Index(string(essay), "//\tf   10  11") + len("//\tf   ") + 4*(p.FingerprintBits-10)
		for i, n := range []int{p.FingerprintBits, p.BucketSize, int(tab.v)} {
			if at := column + i*len("//\tf   10  11  12  13  14  15  16  17  18  19  20  21  22\n"); string(essay[at:at+2]) != fmt.Sprint(n) {
				t.Errorf("f=%d: the table says %s, not %d", p.FingerprintBits, essay[at:at+2], n)
			}
		}
	}
	image, sb, g := readImage(t, "compact-f13.mmf")
	tab := NewTable(g).(*compact)
	h := xxh3.HashStringSeed("key 437", sb.Seed())
	line, rest := SplitHash(h, g.Lines)
	it := tab.Split(h)
	other := tab.Alternate(it)
	fp := uint64(it.Fp)
	m := fp * mixFirst
	u := (m ^ m>>32) * mixSecond
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
		var l Line
		for i := range l {
			l[i] = binary.LittleEndian.Uint64(image[OffRegion+64*int(number)+8*i:])
		}
		says("offset %d", OffRegion+64*number)
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

// TestWorkedPairs holds the worked examples of packed and semi-sorted buckets
// against the images they are about.
func TestWorkedPairs(t *testing.T) {
	essay, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	says := func(format string, args ...any) {
		t.Helper()
		if text := fmt.Sprintf(format, args...); !strings.Contains(string(essay), text) {
			t.Errorf("the essay does not say\n%s", text)
		}
	}
	for _, c := range []struct{ image, key string }{{"packed-f12", "key 3"}, {"semisorted-f13", "key 23"}} {
		image, sb, g := readImage(t, c.image+".mmf")
		tab := NewTable(g).(*pair)
		h := xxh3.HashStringSeed(c.key, sb.Seed())
		line, rest := SplitHash(h, g.Lines)
		it := tab.Split(h)
		other := tab.Alternate(it)
		m := uint64(it.Fp) * mixFirst
		u := (m ^ m>>32) * mixSecond
		big, _ := bits.Mul64(u, g.Lines)
		says("testdata/%s.mmf has %d lines", c.image, g.Lines)
		says("//\th      = %#016x\n//\tline   = hi(h, %d)                 = %d\n", h, g.Lines, line)
		says("//\tfp     = 1 + hi(%#016x, %#x)   = %#x\n", rest, tab.values, it.Fp)
		says("//\tu      = %#016x, hi(u, %d) = %d, alt = %d\n", u, g.Lines, big, other.Line)
		for _, l := range []uint64{it.Line, other.Line} {
			first, bit, n := tab.place(l)
			off := OffRegion + 8*int(first)
			says("%d to %d, of word", l*tab.size, (l+1)*tab.size-1)
			says("offset %d", off)
			words := wordsOf(image, tab, l)
			text := "//\t"
			for _, w := range words {
				text += fmt.Sprintf("%#016x ", w)
			}
			text += strings.Repeat(" ", 2+19*(2-n))
			width := 3
			if tab.kind == SemiSorted {
				number := bitsAt(words, bit, numberBits)
				nibbles := nibblesOf[number]
				text += fmt.Sprintf("number %#03x, nibbles %x %x %x %x, ", number, nibbles&15, nibbles>>4&15, nibbles>>8&15, nibbles>>12)
				width = 4
			}
			text += "slots"
			slots := tab.read(words, bit)
			for _, fp := range slots[:tab.b] {
				text += fmt.Sprintf(" %#0*x", width, fp)
			}
			says("%s\n", text)
		}
		if tab.kind == SemiSorted {
			says("tail of slot 0 is %#x.", bitsAt(wordsOf(image, tab, it.Line), tab.size*it.Line%64+numberBits, uint64(tab.f-nibbleBits)))
		}
	}
}

// wordsOf gives the words of a line in an image.
func wordsOf(image []byte, tab *pair, line uint64) (words []uint64) {
	first, n := tab.Words(line)
	for i := range n {
		words = append(words, binary.LittleEndian.Uint64(image[OffRegion+8*(int(first)+i):]))
	}
	return words
}
