package compact

import (
	"math"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A filling is a range of lines that FillLines fills. It decides which items leave their home lines
// before it writes a line.
type filling struct {
	table *table
	first uint64 // line of the range
	lines []filled
}

// A filled is what a line of a filling gets.
type filled struct {
	own         []uint64          // the hashes of its items
	home        int               // items that stay
	guests      int               // items of other lines
	stay, leave [directions]uint8 // items by direction; stay counts up to math.MaxUint8
}

// FillLines implements layout.Hosts. The lines with the most items choose first which items leave,
// since they need the most room.
func (t *table) FillLines(region []uint64, from, to uint64, hashes, left []uint64) []uint64 {
	if len(hashes) == 0 {
		return left
	}
	f := filling{t, from, make([]filled, to-from)}
	var crowded []uint64 // lines
	for len(hashes) > 0 {
		line, own := t.ofOneLine(hashes)
		hashes = hashes[len(own):]
		l := &f.lines[line-from]
		if l.own, l.home = own, len(own); l.home > int(t.b) {
			crowded = append(crowded, line)
		}
		for _, h := range own {
			if n := &l.stay[t.Split(h).Fp%directions]; *n < math.MaxUint8 {
				*n++
			}
		}
	}
	slices.SortStableFunc(crowded, func(a, b uint64) int { return f.lines[b-from].home - f.lines[a-from].home })
	for _, line := range crowded {
		for f.lines[line-from].home > int(t.b) && f.send(line, true) {
		}
	}
	var guests []layout.Item
	for i := range f.lines {
		if l := &f.lines[i]; len(l.own) > 0 { // otherwise the line is right already, and its page stays clean
			guests, left = t.fill(layout.LineAt(region, from+uint64(i)), l, guests, left)
		}
	}
	for _, g := range guests {
		t.placeGuest(layout.LineAt(region, g.Line), uint64(g.Fp))
	}
	return left
}

// ofOneLine returns the line of the first of sorted hashes, and the hashes of this line.
func (t *table) ofOneLine(hashes []uint64) (line uint64, own []uint64) {
	line, _ = layout.SplitHash(hashes[0], t.lines)
	for n, h := range hashes[1:] {
		if next, _ := layout.SplitHash(h, t.lines); next != line {
			return line, hashes[:n+1]
		}
	}
	return line, hashes
}

// send has an item leave its home line. It prefers the direction in which the most items leave so far,
// and of several the one in which the most can still leave. If no other line has room and deeper is
// set, items leave another line first.
func (f *filling) send(line uint64, deeper bool) bool {
	l, best, most := &f.lines[line-f.first], -1, 0
	for d, n := range l.stay {
		if n = min(n, f.room(f.other(line, d))); n > 0 && int(n)+int(l.leave[d])<<8 > most {
			best, most = d, int(n)+int(l.leave[d])<<8
		}
	}
	for d := 0; d < directions && best < 0 && deeper; d++ {
		to := f.other(line, d)
		if l.stay[d] == 0 || to == line || f.lines[to-f.first].home > int(f.table.b) {
			continue
		}
		for f.room(to) == 0 && f.send(to, false) {
		}
		if f.room(to) > 0 {
			best = d
		}
	}
	if best < 0 {
		return false
	}
	l.home--
	l.stay[best]--
	l.leave[best]++
	f.lines[f.other(line, best)-f.first].guests++
	return true
}

// other returns the other line of items that have a home line and a direction. If that line is in
// another range, it returns the home line.
func (f *filling) other(line uint64, direction int) uint64 {
	to := f.table.Alternate(layout.Item{Line: line, Fp: uint32(direction)}).Line
	if to-f.first >= uint64(len(f.lines)) {
		return line
	}
	return to
}

// room returns how many more guests a line can take.
func (f *filling) room(line uint64) uint8 {
	l, t := &f.lines[line-f.first], f.table
	if l.home > int(t.b) {
		return 0
	}
	return uint8(min(max(t.unused(uint64(l.home), uint64(l.guests)), 0)/int64(t.guest), int64(mostGuests-l.guests)))
}

// fill makes the image of a line, without its guests. It appends the items that become guests of other
// lines to guests, and the hashes of items for which there is no room to left.
func (t *table) fill(l *layout.Line, f *filled, guests []layout.Item, left []uint64) ([]layout.Item, []uint64) {
	var fps [maxSlots]uint32
	n, leave := 0, f.leave
	for _, h := range f.own {
		it := t.Split(h)
		switch d := it.Fp % directions; {
		case leave[d] > 0:
			leave[d]--
			l[lastWord] |= overflowBit(uint64(d))
			guests = append(guests, t.Alternate(it))
		case n < int(t.b):
			fps[n] = it.Fp
			n++
		default:
			left = append(left, h)
		}
	}
	t.encode(l, fps[:n])
	return guests, left
}
