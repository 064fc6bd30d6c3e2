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
			says("rest of slot 0 is %#x.", bitsAt(wordsOf(image, tab, it.Line), tab.size*it.Line%64+numberBits, uint64(tab.f-nibbleBits)))
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
