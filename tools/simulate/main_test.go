package main

import (
	"bytes"
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
	if n := strings.Count(out.String(), "random"); n != 4*2 {
		t.Errorf("%d rows:\n%s", n, &out)
	}
	second := map[string][2]float64{}
	for _, idea := range []string{"pairs", "sweeps", "directions", "eager"} {
		life := newLife(&setting{idea: idea, kind: "oldest", load: 0.93, f: 13, v: 16, lines: 300, turnovers: 6, seed: 1})
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
	for _, args := range [][]string{{"-ideas", "x"}, {"-kinds", "x"}, {"-loads", "x"}, {"-loads", "0"}, {"-loads", "101"}, {"-f", "9"}, {"-bits", "0"}, {"-lines", "1"}, {"-turnovers", "4"}, {"-x"}} {
		var out, errs bytes.Buffer
		if run(args, &out, &errs) != 2 || errs.Len() == 0 || out.Len() != 0 {
			t.Errorf("%v: %s%s", args, &out, &errs)
		}
	}
}
