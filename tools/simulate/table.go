package main

import (
	"math"
	"math/bits"
	"slices"
)

// A setting holds the parameters of one life.
type setting struct {
	idea, kind string
	load       float64
	f, v       int
	far        bool
	lines      int
	turnovers  int
	sweeps     int // times that the idea "sweeps" makes all bits again in a turnover
	seed       uint64
}

// An item is at home in its home line, or a guest in its alternate line.
type item struct {
	fp    uint32
	guest bool
}

// A spot is an item as seen from a line.
type spot struct {
	line int
	item
}

// A table has lines of items, overflow bits, and a stash.
type table struct {
	*setting
	room
	known       bool // lines know their guests
	directed    bool // each overflow bit stands for one other line
	eager       bool // deletes bring items home
	lines       [][]item
	hosted      []int // guests of each line
	marks       []uint64
	needs       []int // items that need a bit, for the idea "exact"; v of each line
	offsets     []int // distances to the other line, by direction
	visited     []int // the last search that has come to each line
	searches    int
	queue       []step    // of a search
	victims     [4][]spot // by cost
	stash       []spot
	mostStashed int
	items       int
	moved       int
}

func newTable(s *setting) *table {
	t := &table{setting: s, room: newRoom(s.idea, s.f, s.v), lines: make([][]item, s.lines), hosted: make([]int, s.lines), visited: make([]int, s.lines), marks: make([]uint64, s.lines)}
	t.known = s.idea != "pairs"
	t.eager = s.idea == "eager" || s.idea == "slotbit" || s.idea == "list"
	t.directed = s.idea == "directions" || t.eager
	if s.idea == "exact" {
		t.needs = make([]int, s.lines*s.v)
	}
	for i := range s.v {
		d := i + 1
		if s.far {
			d = int(mix(uint64(i)) % uint64(s.lines-1))
		} else if i > 0 { // growing from 1 line to about 2,000
			d = t.offsets[i-1] + 1 + int(math.Pow(2000, float64(i)/float64(max(s.v-1, 1))))/2
		}
		t.offsets = append(t.offsets, 1+(d-1)%(s.lines-1))
	}
	return t
}

// mix is a bijection without structure (Stafford's variant 13 of the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x = (x ^ x>>30 + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// other returns the same item as seen from its other line.
func (t *table) other(s spot) spot {
	n := len(t.lines)
	switch {
	case !t.directed:
		s.line = ((int(mix(uint64(s.fp))%uint64(n))-s.line)%n + n) % n
	case s.guest:
		s.line = (s.line - t.offsets[int(s.fp)%t.v] + n) % n
	default:
		s.line = (s.line + t.offsets[int(s.fp)%t.v]) % n
	}
	s.guest = !s.guest
	return s
}

// mask returns the overflow bits of a fingerprint.
func (t *table) mask(fp uint32) uint64 {
	i := int(fp) % 128
	if t.directed {
		return 1 << (int(fp) % t.v)
	}
	o := i % t.v
	return 1<<o | 1<<((o+1+i/t.v)%t.v)
}

// takes reports whether a line has room for an item once the given items leave.
func (t *table) takes(s spot, leaves ...item) bool {
	guests := t.hosted[s.line]
	home := len(t.lines[s.line]) - guests
	count := func(it item, n int) {
		if it.guest {
			guests += n
		} else {
			home += n
		}
	}
	count(s.item, 1)
	for _, it := range leaves {
		count(it, -1)
	}
	return t.room.takes(home, guests)
}

func (t *table) put(s spot) bool {
	if !t.takes(s) {
		return false
	}
	t.lines[s.line] = append(t.lines[s.line], s.item)
	if s.guest {
		t.hosted[s.line]++
	}
	return true
}

func (t *table) take(s spot) bool {
	l := t.lines[s.line]
	i := slices.Index(l, s.item)
	if i < 0 && !t.known { // any equal item
		i = slices.Index(l, item{s.fp, !s.guest})
	}
	if i < 0 {
		return false
	}
	if l[i].guest {
		t.hosted[s.line]--
	}
	l[i] = l[len(l)-1]
	t.lines[s.line] = l[:len(l)-1]
	return true
}

// leave sets the overflow bits for an item that leaves a line.
func (t *table) leave(s spot) {
	if t.known && s.guest {
		return
	}
	t.marks[s.line] |= t.mask(s.fp)
	if t.needs != nil {
		for left := t.mask(s.fp); left != 0; left &= left - 1 {
			t.needs[s.line*t.v+bits.TrailingZeros64(left)]++
		}
	}
}

// came clears the overflow bits of an item that has come to its home line or is deleted, unless
// another item needs them. The item must have left its old place.
func (t *table) came(home spot) {
	if t.needs != nil {
		for left := t.mask(home.fp); left != 0; left &= left - 1 {
			bit := bits.TrailingZeros64(left)
			need := &t.needs[home.line*t.v+bit]
			if *need--; *need == 0 {
				t.marks[home.line] &^= 1 << bit
			}
		}
	}
	if !t.directed {
		return
	}
	away := t.other(home)
	direction := int(home.fp) % t.v
	for _, it := range t.lines[away.line] {
		if it.guest && int(it.fp)%t.v == direction {
			return
		}
	}
	for _, s := range t.stash {
		if s.line == home.line && int(s.fp)%t.v == direction {
			return
		}
	}
	t.marks[home.line] &^= t.mask(home.fp)
}

// cost orders the items that may leave a line: first guests, which go home, then items whose
// bits are set, then the others.
func (t *table) cost(s spot) int {
	if t.known && s.guest {
		return 0
	}
	missing := t.mask(s.fp) &^ t.marks[s.line]
	cost := 1
	for ; missing != 0; missing &= missing - 1 {
		cost++
	}
	return cost
}

type step struct {
	to    spot
	from  int
	moves int
}

const (
	searchLines = 64
	pathMoves   = 8
)

// insert follows rules P1 and P2 of package place.
func (t *table) insert(home spot) {
	t.items++
	if t.put(home) {
		return
	}
	t.queue = append(t.queue[:0], step{to: home, from: -1})
	t.searches++
	t.visited[home.line] = t.searches
	for head := 0; head < len(t.queue) && head < searchLines; head++ {
		at := t.queue[head]
		if at.moves == pathMoves {
			break
		}
		for i := range t.victims {
			t.victims[i] = t.victims[i][:0]
		}
		ifHome, ifGuest := t.takes(at.to, item{}), t.takes(at.to, item{guest: true}) // if such an item leaves
		add := func(s spot) {
			if s == home || ifGuest && s.guest || ifHome && !s.guest {
				cost := t.cost(s)
				t.victims[cost] = append(t.victims[cost], s)
			}
		}
		if head == 0 {
			add(home)
		}
		for _, it := range t.lines[at.to.line] {
			add(spot{at.to.line, it})
		}
		for _, same := range t.victims {
			for _, v := range same {
				next := step{t.other(v), head, at.moves + 1}
				if t.visited[next.to.line] == t.searches {
					continue
				}
				t.visited[next.to.line] = t.searches
				if head == 0 && v == home {
					next.from = -1
				}
				if t.put(next.to) {
					t.along(next, home)
					return
				}
				t.queue = append(t.queue, next)
			}
		}
	}
	t.stash = append(t.stash, home)
	t.mostStashed = max(t.mostStashed, len(t.stash))
	t.leave(home)
}

// along moves the items of a path, starting at its end.
func (t *table) along(last step, home spot) {
	for last.to != home {
		old := t.other(last.to)
		t.leave(old)
		if last.from < 0 { // the new item itself moves on
			return
		}
		if !t.take(old) {
			panic("a path has changed")
		}
		t.moved++
		if old.guest {
			t.came(last.to)
		}
		last = t.queue[last.from]
		if !t.put(last.to) {
			panic("a path has changed")
		}
	}
}

// remove deletes an item. Then one from the stash takes its place, or an eager table brings one home.
func (t *table) remove(home spot) {
	t.items--
	freed := home.line
	if !t.take(home) {
		if i := slices.Index(t.stash, home); i >= 0 {
			t.stash = slices.Delete(t.stash, i, i+1)
			t.came(home)
			return
		}
		away := t.other(home)
		if !t.take(away) {
			panic("an item is lost")
		}
		freed = away.line
		t.came(home)
	}
	for i, s := range t.stash {
		isHome := s.line == freed && t.put(s)
		if to := t.other(s); !isHome && (to.line != freed || !t.put(to)) {
			continue
		}
		if t.stash = slices.Delete(t.stash, i, i+1); isHome {
			t.came(s)
		}
		return
	}
	if !t.eager || t.marks[freed] == 0 {
		return
	}
	// Prefer an item that is alone in its direction, because its bit can then be cleared.
	fewest, best := math.MaxInt, spot{}
	for i, offset := range t.offsets {
		if t.marks[freed]>>i&1 == 0 {
			continue
		}
		n, last := 0, spot{line: (freed + offset) % len(t.lines)}
		for _, it := range t.lines[last.line] {
			if it.guest && int(it.fp)%t.v == i {
				n, last.item = n+1, it
			}
		}
		if n > 0 && n < fewest {
			fewest, best = n, last
		}
	}
	if to := t.other(best); best.guest && t.put(to) {
		t.moved++
		t.take(best)
		t.came(to)
	}
}

// sweep rebuilds all overflow bits.
func (t *table) sweep() {
	clear(t.marks)
	for line, l := range t.lines {
		for _, it := range l {
			if it.guest {
				t.leave(t.other(spot{line, it}))
			}
		}
	}
	for _, s := range t.stash {
		t.leave(s)
	}
}

// second returns the share of absent keys whose lookup reads a second line.
func (t *table) second() float64 {
	n := 0
	for _, m := range t.marks {
		for fp := range uint32(128 * t.v) {
			if mask := t.mask(fp); m&mask == mask {
				n++
			}
		}
	}
	return float64(n) / float64(128*t.v*len(t.marks))
}

func (t *table) away() float64 {
	n := len(t.stash)
	for _, l := range t.lines {
		for _, it := range l {
			if it.guest {
				n++
			}
		}
	}
	return float64(n) / float64(t.items)
}

// rate returns the false-positive rate. An item at home matches keys of its line. A known guest
// matches only keys of its home line. Otherwise any item of a line matches all keys looked up
// there.
func (t *table) rate() float64 {
	match := float64(t.items) / float64(len(t.lines)) * math.Exp2(-float64(t.f))
	if t.known {
		return match
	}
	return match * (1 + t.second() + t.away())
}
