package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// number returns the number that a cell begins with.
func number(t *testing.T, cell string) float64 {
	t.Helper()
	word, _, _ := strings.Cut(strings.ReplaceAll(cell, ",", ""), " ")
	x, err := strconv.ParseFloat(word, 64)
	must(t, err)
	return x
}

// TestPaperTable3 checks that the rates are within five standard errors of theory, and that the bits of
// an item are those of the paper, apart from the head of our files.
func TestPaperTable3(t *testing.T) {
	rows := short(t, "paper", "-asks", "200000", "-size", "192KiB")
	head := 8 * 42000.0                                                  // in bits, with the stash and the checksums
	for name, c := range map[string]struct{ least, most, bits float64 }{ // rate in %
		"CF": {0.13, 0.24, 12.65}, "ss-CF": {0.06, 0.13, 12.65}, "Compact": {0.15, 0.25, 12.30}, "BF": {0.14, 0.26, 13},
		"blk-BF": {0.20, 0.60, 13},
	} {
		got := want(t, rows, name)
		keys, bits, rate := number(t, got[0]), number(t, got[2]), number(t, got[3])
		if rate < c.least || rate > c.most || !strings.HasPrefix(got[1], "0 of ") {
			t.Errorf("%s: %q", name, got)
		}
		most := c.bits * 1.01
		if name == "CF" || name == "ss-CF" || name == "Compact" {
			most += head / keys
		}
		if bits < 0.99*c.bits || bits > most {
			t.Errorf("%s: %g bits an item, not %g to %g", name, bits, c.bits, most)
		}
	}
}

// TestPaperFigure2 checks that long enough fingerprints reach the loads of the paper, and that the first
// key that finds no slot comes before the first key that is refused.
func TestPaperFigure2(t *testing.T) {
	rows := short(t, "paper", "-figure", "fig2")
	for b, least := range map[string]float64{"2": 84, "4": 95, "8": 98} {
		for _, f := range []string{"8", "12", "20"} {
			got := want(t, rows, b, "512", f)
			if noSlot, refused := number(t, got[0]), number(t, got[1]); noSlot < least || noSlot > 100 || refused <= noSlot {
				t.Errorf("b=%s, f=%s: %q", b, f, got)
			}
		}
	}
}

// TestPaperFigure4 compares the rates of cuckoo tables with 2b·load/2^f.
func TestPaperFigure4(t *testing.T) {
	rows := short(t, "paper", "-figure", "fig4", "-size", "256KiB", "-asks", "200000")
	for _, layout := range []string{"packed", "semisorted"} {
		for _, f := range []int{7, 8, 9, 10} {
			got := want(t, rows, fmt.Sprintf("mmapfilter %s, f=%d, b=4", layout, f))
			expected := -math.Expm1(-8 * 0.95 / math.Exp2(float64(f)))
			if rate := number(t, got[3]) / 100; math.Abs(rate/expected-1) > 0.05+5/math.Sqrt(200_000*expected) {
				t.Errorf("%s, f=%d: a rate of %g, not %g", layout, f, rate, expected)
			}
		}
	}
}

// TestPaperFigures checks that each structure has a row in each table, and that exactly the structures
// that can delete have figures for deletes.
func TestPaperFigures(t *testing.T) {
	for figure, tables := range map[string]int{"fig5": 2, "fig6": 2, "fig7": 1, "fig8": 1} {
		rows := short(t, "paper", "-figure", figure)
		columns := 10
		if figure == "fig5" {
			columns = 1
		}
		if len(rows) != tables*(1+len(structures())) {
			t.Errorf("%s: %d rows", figure, len(rows))
		}
		for _, s := range structures() {
			got := want(t, rows, s.name)
			if len(got) != columns+1 || strings.HasSuffix(s.name, "CF") && !strings.HasPrefix(got[columns], "0 of ") {
				t.Errorf("%s: %s: %q", figure, s.name, got)
			}
			if none := figure == "fig8" && strings.HasSuffix(s.name, "BF"); (got[0] == "none") != none {
				t.Errorf("%s: %s: %q", figure, s.name, got)
			}
		}
	}
}
