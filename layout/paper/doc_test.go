package paper

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

// TestWorkedPairs checks the worked examples of packed and semi-sorted buckets against their images.
func TestWorkedPairs(t *testing.T) {
	_, says := layouttest.Essay(t)
	for _, c := range []struct{ image, key string }{{"packed-f12", "key 3"}, {"semisorted-f13", "key 23"}} {
		image, sb, g := layouttest.Image(t, c.image+".mmf")
		tab := layout.NewTable(g).(*table)
		h := xxh3.HashStringSeed(c.key, sb.Seed())
		line, rest := layout.SplitHash(h, g.Lines)
		it := tab.Split(h)
		other := tab.Alternate(it)
		m := uint64(it.Fp) * layout.MixFirst
		u := (m ^ m>>32) * layout.MixSecond
		big, _ := bits.Mul64(u, g.Lines)
		says("testdata/%s.mmf has %d lines", c.image, g.Lines)
		says("//\th      = %#016x\n//\tline   = hi(h, %d)                 = %d\n", h, g.Lines, line)
		says("//\trest   = %#016x\n//\tfp     = 1 + hi(rest, %#x)", rest, tab.values)
		says("       = %#x\n//\tu      =", it.Fp)
		says("//\tu      = %#016x, hi(u, %d) = %d, alt = %d\n", u, g.Lines, big, other.Line)
		for _, l := range []uint64{it.Line, other.Line} {
			first, bit, n := tab.place(l)
			off := layout.OffRegion + 8*int(first)
			where := fmt.Sprintf("word %d, at offset %d", first, off)
			if n == 2 {
				where = fmt.Sprintf("words %d\n// and %d, from offset %d on", first, first+1, off)
			}
			says("ine %d is bits %d to %d, in %s", l, l*tab.size, (l+1)*tab.size-1, where)
			words := wordsOf(image, tab, l)
			text := "//\t"
			for _, w := range words {
				text += fmt.Sprintf("%#016x ", w)
			}
			text += strings.Repeat(" ", 2+19*(2-n))
			width := 3
			if tab.kind == layout.SemiSorted {
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
		if tab.kind == layout.SemiSorted {
			says("tail of slot 0 is\n// %#x.", bitsAt(wordsOf(image, tab, it.Line), tab.size*it.Line%64+numberBits, uint64(tab.f-nibbleBits)))
		}
	}
}

// wordsOf returns the words of a line in an image.
func wordsOf(image []byte, tab *table, line uint64) (words []uint64) {
	first, n := tab.Words(line)
	for i := range n {
		words = append(words, binary.LittleEndian.Uint64(image[layout.OffRegion+8*(int(first)+i):]))
	}
	return words
}
