package place

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// MostAhead is how many inserts of a batch LookAhead takes at once: the bits of a word.
const MostAhead = 64

// Expect gives the Placer the outlook of the inserts that follow, until the next Expect. With
// a nil outlook, the Placer knows nothing about the next inserts. Only inserts may come
// between LookAhead and the inserts that use its outlooks.
func (p *Placer) Expect(o *Outlook) {
	if o == nil {
		o = &unknown
	}
	p.outlook = o
}

// Expects reports whether LookAhead made the outlook of the current insert.
func (p *Placer) Expects() bool { return p.outlook.made }

// A Preview shows the newest state of many lines at once, before any of them changes.
type Preview interface {
	// FullLines returns as a bit set which of up to MostAhead lines have no free slot.
	FullLines(lines []uint64) (full uint64)
	// Peek reads the image of a line, as Lines.Load does.
	Peek(line uint64, l *layout.Line)
	// PrefetchChange prefetches what a change of a line needs.
	PrefetchChange(line uint64)
}

// LookAhead makes the outlooks of up to MostAhead inserts: which home lines are full. If a home line
// is full, it prefetches the lines to which items would go: in a layout.Hosts, the lines of the
// first moves; otherwise the alternate line.
func (p *Placer) LookAhead(now Preview, items []layout.Item, ahead []Outlook) {
	var lines [MostAhead]uint64
	for i, it := range items {
		lines[i] = it.Line
		now.PrefetchChange(it.Line)
		ahead[i].made, ahead[i].homeFull, ahead[i].prefetched = true, false, false
	}
	EachBit(now.FullLines(lines[:len(items)]), func(i int) {
		if ahead[i].homeFull = true; p.hosts == nil {
			p.prefetchOther(items[i])
			return
		}
		o := &ahead[i]
		o.prefetched = true
		now.Peek(items[i].Line, &o.line)
		p.listVictims(&o.line, items[i], true)
		o.victims = append(o.victims[:0], p.victims...)
		p.prefetchOthers(p.victims)
	})
}

// EachBit calls do for each bit that is set, starting with the lowest.
func EachBit(set uint64, do func(i int)) {
	for ; set != 0; set &= set - 1 {
		do(bits.TrailingZeros64(set))
	}
}
