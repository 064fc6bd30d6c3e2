package layout

// CheckLines counts the items of the lines [from, to). It checks the lines against rule F10 and, if
// the table is a [Hosts], against F11. The error is a [*CorruptError].
func CheckLines(g Geometry, t Checks, region []uint64, from, to uint64) (items uint64, err error) {
	items, line, err := t.CheckLines(region, from, to)
	if err != nil {
		return items, corrupt(RegionBuckets, g.LineOffset(line), "F10", "line %d: %v", line, err)
	}
	if hosts, ok := t.(Hosts); ok {
		if line, err = hosts.CheckBits(region, from, to); err != nil {
			return items, corrupt(RegionBuckets, g.LineOffset(line), "F11", "line %d: %v", line, err)
		}
	}
	return items, nil
}

// CheckStash checks every entry against F12. It returns how many entries are in use, and
// how many items they count.
func CheckStash(t Table, v *View) (entries int, items uint64, err error) {
	var l Line
	for i := 0; i < len(v.Stash); i += 2 {
		w0, w1 := v.Stash[i], v.Stash[i+1]
		if i%groupWords == 0 {
			w0 &^= groupMark
		}
		if w0|w1 == 0 {
			continue
		}
		bad := func(what string) error {
			return corrupt(RegionStash, OffStash+int64(i)*8, "F12", "entry %d: %s", i/2, what)
		}
		c := entryClass(w0, w1)
		if w1&maxStashCount == 0 {
			return entries, items, bad("its count is 0")
		}
		if !c.isOf(t) {
			return entries, items, bad("no item has this line, bucket and fingerprint")
		}
		if j, ok := stashEntry(v.At, c); !ok || j != WordStash+uint64(i) {
			return entries, items, bad("a lookup does not find it")
		}
		it := Item(c)
		Load(t, v.Region, it.Line, &l)
		marked := Overflowed(t, &l, it)
		other := t.Alternate(it)
		Load(t, v.Region, other.Line, &l)
		if !marked && !Overflowed(t, &l, other) {
			return entries, items, bad("no overflow bits lead to it")
		}
		entries++
		items += w1 & maxStashCount
	}
	return entries, items, nil
}
