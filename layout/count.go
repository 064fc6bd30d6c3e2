package layout

// Copies returns the number of slots of a line that hold an item, which is given as seen from
// that line.
func Copies(t Table, l Line, it Item) (n int) {
	for t.Remove(&l, it, nil) {
		n++
	}
	return n
}

// Count counts the items of the class of a hash, in words that come from anywhere, as in
// Lookup. If removals disturb all of lookupTries attempts, ok is false.
func Count(t Table, at func(word uint64) uint64, h uint64) (items uint64, ok bool) {
	home := t.Split(h)
	other := t.Alternate(home)
	var rests counters
	rests.addHome(t, home)
	rests.addOthers(t, other)
	for range lookupTries {
		rests.begin(at)
		items = uint64(Copies(t, LineFrom(t, at, home.Line), home))
		items += StashCountAt(at, t.Class(home))
		if other.Line != home.Line {
			items += uint64(Copies(t, LineFrom(t, at, other.Line), other))
		}
		if !rests.moved(at) {
			return items, true
		}
	}
	return 0, false
}

// LineFrom returns the image of a line of a file. at returns a word of the file by its number.
func LineFrom(t Looks, at func(word uint64) uint64, line uint64) (l Line) {
	first, n := t.Words(line)
	for i := range l[:n] {
		l[i] = at(WordRegion + first + uint64(i))
	}
	return l
}
