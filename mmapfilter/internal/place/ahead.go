package place

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// MostAhead is how many inserts of a batch LookAhead takes at once: the bits of a word.
const MostAhead = 64

// Expect gives the Placer the outlook of the inserts that follow, until the next Expect. A nil
// outlook knows nothing. Only inserts may come between LookAhead and the inserts that use its
// outlooks.
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

// LookAhead makes the outlooks of up to MostAhead inserts, one step for all of them at a time.
// The steps are: the home lines; the alternate lines of items whose home line is full; if those
// are full too, the line that the first move out of the home line leads to, then the second, and
// so on, for the items that have found no room yet. When few items are left it prefetches their
// next lines and stops. If the layout sets ChooseFirst, it prefetches the lines of the first
// moves instead.
func (p *Placer) LookAhead(now Preview, items []layout.Item, ahead []Outlook) {
	var which [MostAhead]uint8 // indices of the items still in progress
	var lines [MostAhead]uint64
	for i, it := range items {
		lines[i] = it.Line
		now.PrefetchChange(it.Line)
		o := &ahead[i]
		o.made, o.homeFull, o.otherFull, o.prefetched, o.fullVictims, o.nextHasRoom = true, false, false, false, 0, false
	}
	n := 0
	EachBit(now.FullLines(lines[:len(items)]), func(i int) {
		ahead[i].homeFull = true
		which[n], lines[n] = uint8(i), p.table.Alternate(items[i]).Line
		n++
	})
	full := uint64(1)<<n - 1
	if !p.bounds.ChooseFirst {
		full = now.FullLines(lines[:n])
		prefetchOpen(now, lines[:n], full)
	}
	n = 0
	EachBit(full, func(j int) {
		i := which[j]
		p.listFirst(now, items[i], &ahead[i])
		which[n] = i
		n++
	})
	if p.bounds.ChooseFirst {
		return
	}
	for n >= fewestAhead {
		for j, i := range which[:n] {
			o := &ahead[i]
			lines[j] = p.table.Alternate(o.victims[o.fullVictims]).Line
		}
		full := now.FullLines(lines[:n])
		prefetchOpen(now, lines[:n], full)
		for j, i := range which[:n] {
			ahead[i].nextHasRoom = full>>j&1 == 0
		}
		n = 0
		EachBit(full, func(j int) {
			o := &ahead[which[j]]
			if o.fullVictims++; o.fullVictims < len(o.victims) {
				which[n] = which[j]
				n++
			}
		})
	}
	for _, i := range which[:n] {
		o := &ahead[i]
		p.prefetchOthers(o.victims[o.fullVictims:])
	}
}

// fewestAhead is the fewest lines that are worth waiting for together. With fewer, a batch would
// wait for one cache miss after the other until its last items find room; with more, more items would
// have to look for room alone.
const fewestAhead = 4

// listFirst lists the first movable items of a full home line. If the layout sets ChooseFirst, it lists
// all of them, and prefetches the lines that the first few would move to.
func (p *Placer) listFirst(now Preview, home layout.Item, o *Outlook) {
	o.prefetched = true
	now.Peek(home.Line, &o.line)
	p.listVictims(&o.line, home, true, false)
	o.victims = append(o.victims[:0], p.victims...)
	if p.bounds.ChooseFirst {
		p.prefetchOthers(p.victims)
		return
	}
	o.otherFull = true
}

// prefetchOpen prefetches what changes of the lines that are not full need.
func prefetchOpen(now Preview, lines []uint64, full uint64) {
	EachBit(^full&(1<<len(lines)-1), func(i int) { now.PrefetchChange(lines[i]) })
}

// EachBit calls do for each bit that is set, starting with the lowest.
func EachBit(set uint64, do func(i int)) {
	for ; set != 0; set &= set - 1 {
		do(bits.TrailingZeros64(set))
	}
}
