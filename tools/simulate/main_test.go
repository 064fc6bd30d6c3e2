package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestRun checks that there is a row for each idea, kind and load; that second lookups keep
// rising only if bits are never cleared; and that a seed always gives the same life.
func TestRun(t *testing.T) {
	args := []string{"-lines", "200", "-turnovers", "6", "-loads", "90,94", "-kinds", "random"}
	var out, again, errs bytes.Buffer
	if code := run(args, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	if run(args, &again, &errs); again.String() != out.String() {
		t.Error("the same seed gives another table")
	}
	if n := strings.Count(out.String(), "random"); n != 2*len(allIdeas) {
		t.Errorf("%d rows:\n%s", n, &out)
	}
	second := map[string][2]float64{}
	for _, idea := range allIdeas {
		life := newLife(&setting{idea: idea, kind: "oldest", load: 0.93, f: 13, v: 16, lines: 300, turnovers: 6, sweeps: 4, seed: 1})
		life.fill()
		life.turnover()
		first := life.table.second()
		for range 5 {
			life.turnover()
		}
		second[idea] = [2]float64{first, life.table.second()}
		if idea != "pairs" && life.table.second() > 0.15 || len(life.table.stash) > 50 {
			t.Errorf("%s: %.3f second lines, %d items in the stash", idea, life.table.second(), len(life.table.stash))
		}
		life.mustBeThere(t)
	}
	if grown := second["pairs"]; grown[1] < 1.5*grown[0] {
		t.Errorf("pairs: second lines %v", grown)
	}
}

// TestExact: where bits are cleared, those that are set are those that items need, while items go
// to the stash and leave it.
func TestExact(t *testing.T) {
	for _, idea := range allIdeas {
		if idea == "pairs" || idea == "sweeps" {
			continue
		}
		for _, load := range []float64{0.9, 1} {
			life := newLife(&setting{idea: idea, kind: "random", load: load, f: 13, v: 16, lines: 60, turnovers: 5, sweeps: 4, seed: 1})
			life.fill()
			life.turnover()
			life.turnover()
			life.mustBeThere(t)
			before := slices.Clone(life.table.marks)
			if life.table.sweep(); !slices.Equal(before, life.table.marks) {
				t.Errorf("%s: the bits are %x, and items need %x", idea, before, life.table.marks)
			}
			if load == 1 && life.table.mostStashed == 0 && idea != "slotbit" { // where no guest takes more room
				t.Errorf("%s: nothing was in the stash", idea)
			}
		}
	}
}

// TestSweeps counts those of a turnover, and the end of a turnover is not just after one.
func TestSweeps(t *testing.T) {
	var second []float64
	for _, sweeps := range []int{1, 8, 10_000} {
		life := newLife(&setting{idea: "sweeps", kind: "random", load: 0.95, f: 13, v: 16, lines: 150, turnovers: 5, sweeps: sweeps, seed: 1})
		life.fill()
		life.turnover()
		second = append(second, life.table.second())
		if life.table.sweep(); life.table.second() > second[len(second)-1] || sweeps == 1 && life.table.second() > 0.7*second[0] {
			t.Errorf("%d sweeps: second lines %.3f, and after another one %.3f", sweeps, second[len(second)-1], life.table.second())
		}
		if n := life.swept(len(life.keys)) - life.swept(0); n != sweeps {
			t.Errorf("%d sweeps, not %d", n, sweeps)
		}
	}
	if !(second[0] > 1.2*second[1] && second[1] > second[2]) {
		t.Errorf("second lines %.3f", second)
	}
}

// TestRoom fills a line with items at home, makes room for a guest, and then adds what fits.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		idea                      string
		f, v, slots, gone, guests int
	}{
		{"pairs", 13, 16, 53, 10, 10},
		{"slotbit", 13, 16, 47, 10, 10},
		{"eager", 13, 16, 52, 10, 6},
		{"list", 13, 16, 52, 10, 6},
		{"eager", 22, 16, 24, 8, 6},
		{"list", 22, 16, 24, 8, 7}, // the number of a slot has 5 bits, a quotient 6
		{"eager", 10, 16, 84, 9, 4},
		{"list", 10, 16, 84, 9, 3}, // it has 7
		{"eager", 13, 16, 52, 40, 15},
		{"list", 13, 14, 52, 10, 6}, // with bits for a guest beside 52 items at home, but no slot
	} {
		life := newLife(&setting{idea: c.idea, kind: "random", load: 0.9, f: c.f, v: c.v, lines: 2, turnovers: 5, sweeps: 4, seed: 1})
		at := func(guest bool, fp int) spot { return spot{0, item{uint32(fp), guest}} }
		n := 0
		for ; life.table.put(at(false, n)); n++ {
		}
		if n != c.slots || n != life.table.slots {
			t.Errorf("%s, f=%d: %d slots, not %d", c.idea, c.f, n, c.slots)
		}
		if !life.table.takes(at(true, n), item{0, false}) || life.table.takes(at(true, n)) {
			t.Errorf("%s, f=%d: an item at home makes no room for a guest", c.idea, c.f)
		}
		for i := range c.gone {
			life.table.take(at(false, i))
		}
		for n = 0; life.table.put(at(true, n)); n++ {
		}
		if n != c.guests {
			t.Errorf("%s, f=%d: %d guests in the room of %d, not %d", c.idea, c.f, n, c.gone, c.guests)
		}
		if !life.table.takes(at(true, n), item{0, true}) {
			t.Errorf("%s, f=%d: a guest makes no room for a guest", c.idea, c.f)
		}
	}
}

// TestInOrder: row 0 is made while 1 and then 2 are, and printed before 1; and row 2 is made when
// 1 has been printed. Otherwise this never ends.
func TestInOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	second, first := make(chan bool), make(chan bool)
	var printed []string
	inOrder(3, func(i int) []string {
		switch i {
		case 0:
			<-second
		case 2:
			close(second)
			<-first
		}
		return []string{fmt.Sprint(i)}
	}, func(row []string) {
		if printed = append(printed, row...); row[0] == "1" {
			close(first)
		}
	})
	if !slices.Equal(printed, []string{"0", "1", "2"}) {
		t.Errorf("printed %v", printed)
	}
}

// mustBeThere looks up every key as a lookup would.
func (l *life) mustBeThere(t *testing.T) {
	t.Helper()
	for _, home := range l.keys {
		in := func(s spot) bool { return l.table.take(s) && l.table.put(s) }
		marked := l.table.marks[home.line]&l.table.mask(home.fp) == l.table.mask(home.fp)
		if in(home) || marked && in(l.table.other(home)) {
			continue
		}
		stashed := false
		for _, s := range l.table.stash {
			stashed = stashed || s == home
		}
		if !marked || !stashed {
			t.Fatalf("%s: a key is lost", l.idea)
		}
	}
}

func TestBadSettings(t *testing.T) {
	for _, args := range [][]string{{"-ideas", "x"}, {"-kinds", "x"}, {"-loads", "x"}, {"-loads", "0"}, {"-loads", "101"}, {"-f", "9"}, {"-bits", "0"}, {"-lines", "1"}, {"-turnovers", "4"}, {"-sweeps", "0"}, {"-loads", "90,101"}, {"-x"}} {
		var out, errs bytes.Buffer
		if run(args, &out, &errs) != 2 || errs.Len() == 0 || out.Len() != 0 {
			t.Errorf("%v: %s%s", args, &out, &errs)
		}
	}
}
