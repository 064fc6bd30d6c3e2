package build

import (
	"context"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// TestOrderDecides covers K7: the meaning of an operation depends on the operations before it in the
// same file, and a delete removes the oldest item, even if a clock was set back. base has the ages of
// the items of a base. Each operation comes a second after the one before, unless the clock is set back.
func TestOrderDecides(t *testing.T) {
	ops := map[rune]layout.Op{'+': layout.Insert, '-': layout.Delete, '1': layout.AtLeastOne}
	type file struct {
		base       []int
		operations string // from age 4 on; < sets the clock back to 0
	}
	for _, c := range []struct {
		files []file
		want  []int // ages
	}{
		{[]file{{nil, "-"}}, nil},
		{[]file{{nil, "+-"}}, nil},
		{[]file{{nil, "-+"}}, []int{5}},
		{[]file{{nil, "---+"}}, []int{7}},
		{[]file{{nil, "+--+"}}, []int{7}},
		{[]file{{nil, "-1"}}, []int{5}},
		{[]file{{nil, "1-"}}, nil},
		{[]file{{nil, "+-1"}}, []int{6}},
		{[]file{{nil, "11"}}, []int{4}},
		{[]file{{nil, "11-"}}, nil},
		{[]file{{nil, "1-1"}}, []int{6}},
		{[]file{{nil, "1+"}}, []int{4, 5}},
		{[]file{{nil, "+1"}}, []int{4}},
		{[]file{{nil, "1+-"}}, []int{5}},
		{[]file{{nil, "++-1"}}, []int{5}},
		{[]file{{[]int{2}, ""}}, []int{2}},
		{[]file{{[]int{2}, "1"}}, []int{2}},
		{[]file{{[]int{2}, "1-"}}, nil},
		{[]file{{[]int{2}, "+-"}}, []int{4}},
		{[]file{{[]int{2}, "--+"}}, []int{6}},
		{[]file{{[]int{0, 2, 3}, "-"}}, []int{2, 3}},
		{[]file{{[]int{0, 2, 3}, "+---"}}, []int{4}},
		{[]file{{[]int{2}, "+<+-"}}, []int{2, 4}},
		{[]file{{nil, "-"}, {nil, "+"}}, []int{4}},
		{[]file{{nil, "--"}, {[]int{1, 3}, "-"}}, []int{3}},
		{[]file{{nil, "1"}, {nil, "-1"}}, []int{4, 5}},
		{[]file{{[]int{1}, "-"}, {nil, "1+"}, {[]int{2}, "---"}}, []int{4, 5}},
	} {
		var kept []recovery.Kept
		for i, f := range c.files {
			k := newKept(t, uint64(i)+1, 0, f.base...)
			tail := hashes.NewTail(k.at, k.file.WritePages)
			for _, op := range f.operations {
				if op == '<' {
					k.now = 0
					continue
				}
				k.do(t, tail, ops[op], 1)
				k.now += hashes.TimeStep
			}
			k.endPage(t, tail)
			kept = append(kept, k.kept())
		}
		for _, distinct := range []bool{false, true} {
			m, err := openKept(t, context.Background(), 1, 1<<20, agesBySecond, kept...)
			must(t, err)
			w, want := new(worker), c.want
			if distinct && len(want) > 1 { // the youngest is kept, so that the key does not expire early
				want = want[len(want)-1:]
			}
			sorted, err := m.load(w, 0, m.Parts(), true, distinct)
			var got []int
			for _, age := range w.ages {
				got = append(got, int(age))
			}
			if err != nil || len(sorted) != len(want) || !slices.Equal(got, want) {
				t.Errorf("%+v, distinct %t: items of ages %v, not %v; %v", c.files, distinct, got, want, err)
			}
			m.Close()
		}
	}
}

// TestEntry covers K7: an entry holds all that an operation says, and the entries of a hash are sorted
// in the order of the history, after the items of the base.
func TestEntry(t *testing.T) {
	const mostNumber = 1<<(64-entryNumber) - 1
	for _, op := range []layout.Op{layout.Insert, layout.Delete, layout.AtLeastOne} {
		for items := -1; items <= 1; items++ {
			e := newEntry(MostInputs-1, keptAges-1, hashes.Entry{Op: op, Items: items, Hash: 7, After: layout.Position{Number: mostNumber}})
			if e.hash != 7 || e.input() != MostInputs-1 || e.age() != keptAges-1 || e.op() != op || e.items() != int64(items) || e.what>>entryNumber != mostNumber {
				t.Errorf("operation %d, %d items: %+v", op, items, e)
			}
			before := newEntry(MostInputs-1, keptAges-1, hashes.Entry{Op: layout.AtLeastOne, Items: 1, Hash: 7, After: layout.Position{Number: mostNumber - 1}})
			item := newEntry(0, 0, hashes.Entry{Op: layout.Insert, Items: 1, Hash: 7})
			if before.compare(e) >= 0 || e.compare(before) <= 0 || item.compare(before) >= 0 {
				t.Errorf("operation %d, %d items: the entry does not come after earlier entries", op, items)
			}
		}
	}
}
