package all_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// A hostsTable is a table whose lines know their guests.
type hostsTable interface {
	layout.Table
	layout.Hosts
}

// checkHosts holds such a table to what package layout says of it, for an item seen from home in
// lines of any content, and for more if they are sound. It changes them.
func checkHosts(t *testing.T, tab hostsTable, v *layout.View, it layout.Item, sound bool) {
	guest := tab.Alternate(it)
	if tab.IsGuest(it) || !tab.IsGuest(guest) || tab.Unhash(tab.Hash(it)) != it || tab.Unhash(tab.Hash(guest)) != guest {
		t.Fatalf("%+v, and a guest %+v", it, guest)
	}
	var l layout.Line
	layout.Load(tab, v.Region, it.Line, &l)
	checkLeavers(t, tab, l, it, true, sound)
	checkLeavers(t, tab, l, it, false, sound)
	for i := range uint32(16) {
		if o := (layout.Item{Line: it.Line, Fp: it.Fp ^ i}); tab.Legal(o) {
			checkOverflow(t, tab, l, o)
		}
	}
	layout.Load(tab, v.Region, guest.Line, &l)
	checkGuests(t, tab, l, guest, sound)
	checkMakeBits(t, tab, v, it)
}

// checkLeavers: of the victims, and the item itself, Leavers has one of each cost and overflow bits.
func checkLeavers(t *testing.T, tab hostsTable, l layout.Line, it layout.Item, itself, sound bool) {
	leavers, all := tab.Leavers(nil, &l, it, itself), tab.Victims(nil, &l, it)
	if sound {
		for _, victim := range all {
			if m := l; !tab.Remove(&m, victim, nil) || !tab.Place(&m, it, nil) {
				t.Fatalf("%+v makes no room for %+v", victim, it)
			}
		}
	}
	if itself {
		all = append(all, it)
		first := slices.IndexFunc(leavers, func(o layout.Item) bool { return tab.Cost(&l, o) >= tab.Cost(&l, it) })
		if first < 0 || leavers[first] != it {
			t.Fatalf("%+v is not the first of its cost in %+v", it, leavers)
		}
	}
	if !slices.IsSortedFunc(leavers, func(a, b layout.Item) int { return cmp.Compare(tab.Cost(&l, a), tab.Cost(&l, b)) }) {
		t.Fatalf("not by cost: %+v", leavers)
	}
	for _, o := range leavers {
		if !slices.Contains(all, o) {
			t.Fatalf("%+v is no victim for %+v", o, it)
		}
	}
	for _, victim := range all {
		n := 0
		for _, o := range leavers {
			if tab.Cost(&l, o) == tab.Cost(&l, victim) && tab.SameBits(o.Fp, victim.Fp) {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d of %+v are like %+v", n, leavers, victim)
		}
	}
}

// checkGuests fills a line with a guest, counts it, and takes it out again.
func checkGuests(t *testing.T, tab hostsTable, before layout.Line, guest layout.Item, sound bool) {
	l, room, copies := before, tab.GuestRoom(&before), layout.Copies(tab, before, guest)
	_, related := tab.Related(&l, guest)
	checkLeavers(t, tab, l, guest, false, sound)
	if tab.SetOverflow(&l, guest, nil); l != before || tab.Cost(&l, guest) != 0 {
		t.Fatalf("if %+v leaves %x, the line is %x, which costs %d", guest, before, l, tab.Cost(&l, guest))
	}
	for n := range int(room) + 1 {
		var s layout.Stores
		was := l
		if tab.Place(&l, guest, &s) != (n < int(room)) {
			t.Fatalf("guest %d has a place in the room of %d: %t", n, room, n >= int(room))
		}
		mustList(t, &was, &l, &s)
		placed := min(n+1, int(room))
		like, n := tab.Related(&l, guest)
		if n != related+placed || n > 0 && (like.Line != guest.Line || !tab.IsGuest(like) || !tab.SameBits(like.Fp, guest.Fp) || layout.Copies(tab, l, like) == 0) {
			t.Fatalf("%d like %+v, such as %+v, after %d and %d more", n, guest, like, related, placed)
		}
		if n := layout.Copies(tab, l, guest); n != copies+placed {
			t.Fatalf("%d of %+v, after %d and %d more", n, guest, copies, placed)
		}
		if left := tab.GuestRoom(&l); left != room-uint64(placed) {
			t.Fatalf("room for %d guests, after %d, and %d have come", left, room, placed)
		}
		if placed == 1 || placed == int(room) {
			checkLeavers(t, tab, l, guest, false, sound)
		}
	}
	if !sound {
		return
	}
	items, _, err := countItems(tab, &before, guest.Line)
	if n, _, err2 := countItems(tab, &l, guest.Line); err != nil || err2 != nil || n != items+room {
		t.Fatalf("%d items and %d guests are %d: %v, %v", items, room, n, err, err2)
	}
	if n := classes(tab, &l, guest.Line)[tab.Class(guest)]; n != copies+int(room) {
		t.Fatalf("%d items like %+v, after %d and %d more", n, guest, copies, room)
	}
	for range room {
		var s layout.Stores
		was := l
		if !tab.Remove(&l, guest, &s) {
			t.Fatalf("%+v is not there", guest)
		}
		mustList(t, &was, &l, &s)
	}
	if l != before {
		t.Fatalf("%x is %x when %d guests have come and gone", before, l, room)
	}
}

// mustList: s lists the words that have changed.
func mustList(t *testing.T, was, is *layout.Line, s *layout.Stores) {
	t.Helper()
	var listed layout.Line
	for i := range s.Len() {
		word, _ := s.At(i)
		listed[word] = 1
	}
	for i := range is {
		if (is[i] != was[i]) != (listed[i] == 1) {
			t.Fatalf("word %d of %x, then %x, is in the list: %t", i, *was, *is, listed[i] == 1)
		}
	}
}

// checkOverflow sets the bits of an item and clears them.
func checkOverflow(t *testing.T, tab hostsTable, before layout.Line, it layout.Item) {
	l, guest := before, tab.Alternate(it)
	must := func(set bool, change func(l *layout.Line, it layout.Item, s *layout.Stores)) {
		t.Helper()
		var s layout.Stores
		was := l
		change(&l, it, &s)
		mustList(t, &was, &l, &s)
		absent := tab.Absent(nil, &l, it.Line)
		n := 0
		for _, a := range absent {
			if a.Line == guest.Line && tab.IsGuest(a) && tab.SameBits(a.Fp, it.Fp) {
				n++
			}
		}
		if set != layout.Overflowed(tab, &l, it) || set != (n == 1) || set != (tab.Cost(&l, it) == 1) {
			t.Fatalf("set: %t, %d of %+v, the cost is %d", set, n, absent, tab.Cost(&l, it))
		}
	}
	had := layout.Overflowed(tab, &l, it)
	if had {
		must(false, tab.ClearOverflow)
	}
	must(true, tab.SetOverflow)
	if had && l != before {
		t.Fatalf("%x is %x when bits have been cleared and set", before, l)
	}
	if must(false, tab.ClearOverflow); !had && l != before {
		t.Fatalf("%x is %x when bits have been set and cleared", before, l)
	}
}

// checkMakeBits: the bits that are made are those that guests and the stash need.
func checkMakeBits(t *testing.T, tab hostsTable, v *layout.View, it layout.Item) {
	var l layout.Line
	overflowed := func() bool {
		layout.Load(tab, v.Region, it.Line, &l)
		return layout.Overflowed(tab, &l, it)
	}
	makeBits := func(from, to uint64) {
		t.Helper()
		first, _ := tab.Words(from)
		last, n := tab.Words(to - 1)
		tab.MakeBits(v, from, to, func(word, value uint64) {
			if word < first || word >= last+uint64(n) || v.Region[word] == value {
				t.Fatalf("%#x is made of %#x in word %d, for the lines %d to %d", value, v.Region[word], word, from, to-1)
			}
			v.Region[word] = value
		})
		tab.MakeBits(v, from, to, func(word, value uint64) { t.Fatalf("word %d changes again, to %#x", word, value) })
	}
	if !layout.StashAdd(v.Stash, tab.Class(it), layouttest.Into(v.Stash)) {
		t.Fatal("no room in the stash")
	}
	for _, from := range []uint64{0, it.Line} {
		layouttest.Change(tab, v.Region, it.Line, func(l *layout.Line) { tab.ClearOverflow(l, it, nil) })
		if makeBits(from, it.Line+1); !overflowed() {
			t.Fatalf("no bit for %+v in the stash", it)
		}
	}
	clear(v.Stash)
	makeBits(0, tab.Lines())
	if line, err := tab.CheckBits(v.Region, 0, tab.Lines()); err != nil {
		t.Fatalf("line %d: %v", line, err)
	}
	for line := range tab.Lines() {
		layout.Load(tab, v.Region, line, &l)
		for _, a := range tab.Absent(nil, &l, line) {
			var other layout.Line
			layout.Load(tab, v.Region, a.Line, &other)
			if _, n := tab.Related(&other, a); n == 0 {
				t.Fatalf("line %d has a bit for guests like %+v, of which there is none", line, a)
			}
		}
	}

	guest := tab.Alternate(it)
	layouttest.Change(tab, v.Region, guest.Line, func(l *layout.Line) { tab.Place(l, guest, nil) })
	layouttest.Change(tab, v.Region, it.Line, func(l *layout.Line) { tab.ClearOverflow(l, it, nil) })
	layout.Load(tab, v.Region, guest.Line, &l)
	_, n := tab.Related(&l, guest)
	if line, err := tab.CheckBits(v.Region, 0, tab.Lines()); n > 0 != (err != nil) || n > 0 && line != guest.Line {
		t.Fatalf("without bits for %d guests of line %d: %v in line %d", n, guest.Line, err, line)
	}
	makeBits(0, tab.Lines())
	if line, err := tab.CheckBits(v.Region, 0, tab.Lines()); err != nil {
		t.Fatalf("line %d: %v", line, err)
	}
	if overflowed() != (n > 0) {
		t.Fatalf("%d guests in line %d, and the bit is set: %t", n, guest.Line, n == 0)
	}
	layout.Load(tab, v.Region, guest.Line, &l)
	if layout.Copies(tab, l, guest) > 0 && !layout.Contains(tab, v, tab.Hash(it)) {
		t.Fatal("a guest is not found")
	}
}
