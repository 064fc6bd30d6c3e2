package layout_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/mmapfilter/mmapfilter/layout"
)

// TestPosition compares chains with those that package hashes gives for programs in other languages.
func TestPosition(t *testing.T) {
	essay, err := os.ReadFile("hashes/doc.go")
	must(t, err)
	at := Position{}
	for _, c := range []struct {
		op    Op
		hash  uint64
		chain uint64
	}{
		{Insert, 0x0, 0x9e3779b97f4a7c15},
		{Insert, 0x1, 0x7a9184f06960bf98},
		{AtLeastOne, 0x1, 0xdcf573199ed5f935},
		{Delete, 0x1, 0xe1b1d9eb24af3a49},
		{Delete, 0x8000000000000000, 0x3623b103465b602b},
		{AtLeastOne, 0xffffffffffffffff, 0xf332d0b661ffc78a},
		{Insert, 0x123456789abcdef, 0xa30da9e41b0ebd57},
		{Delete, 0x123456789abcdef, 0x8d951b55fb41e4fa},
	} {
		number := at.Number + 1
		if at = at.After(c.op, c.hash); at != (Position{number, c.chain}) {
			t.Errorf("operation %d on %#x leads to position %d, %#016x", c.op, c.hash, at.Number, at.Chain)
		}
		name := [...]string{Insert: "insert", Delete: "delete", AtLeastOne: "at least one"}[c.op]
		if row := fmt.Sprintf("//\t%d   %-12s  %016x   %016x\n", number, name, c.hash, c.chain); !strings.Contains(string(essay), row) {
			t.Errorf("package hashes does not say\n%s", row)
		}
	}
}

// TestPositionTellsHistoriesApart: another operation, hash or order leads to another chain.
func TestPositionTellsHistoriesApart(t *testing.T) {
	type step struct {
		op   Op
		hash uint64
	}
	const a, b = 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3
	seen := map[Position]int{}
	for i, history := range [][]step{
		{},
		{{Insert, 0}},
		{{Insert, a}},
		{{Delete, a}},
		{{AtLeastOne, a}},
		{{Insert, a ^ 1<<63}},
		{{Insert, a}, {Insert, b}},
		{{Insert, b}, {Insert, a}},
		{{Insert, a}, {Delete, a}},
		{{Delete, a}, {Insert, a}},
		{{Insert, a}, {Insert, a}},
		{{Insert, a ^ 1<<63}, {Insert, a ^ 1<<63}},
		{{Insert, a}, {Insert, a}, {Insert, a}},
	} {
		at := Position{}
		for _, s := range history {
			at = at.After(s.op, s.hash)
		}
		if at.Number != uint64(len(history)) {
			t.Errorf("history %d has %d operations", i, at.Number)
		}
		at.Number = 0 // the chain alone tells them apart
		if j, ok := seen[at]; ok {
			t.Errorf("histories %d and %d have the chain %#x", i, j, at.Chain)
		}
		seen[at] = i
	}
	// Each bit of a hash changes the chains of all later positions.
	for bit := range 64 {
		a, b := Position{}.After(Insert, 0), Position{}.After(Insert, 1<<bit)
		for n := range uint64(100) {
			if a.Chain == b.Chain {
				t.Errorf("bit %d is lost after %d operations", bit, n)
			}
			a, b = a.After(Insert, n), b.After(Insert, n)
		}
	}
}

// TestKeptCounts: each operation of a history changes the position and the counts of a Kept as it must.
func TestKeptCounts(t *testing.T) {
	start := Kept{Position{70, 0xC4A1}, 3, 2, Position{}, 0}
	for _, c := range []struct {
		op               Op
		grow             int
		number           uint64
		leftOut, waiting uint64
	}{
		{Insert, 1, 71, 3, 2},
		{AtLeastOne, 1, 71, 3, 2},
		{AtLeastOne, 0, 71, 4, 2},
		{Delete, -1, 71, 3, 2},
		{Delete, 0, 71, 3, 3},
		{0, 1, 70, 3, 2}, // not in the history
		{0, -1, 70, 3, 2},
	} {
		k := start
		k.Add(c.op, c.grow, 9)
		at := start.At
		if c.op != 0 {
			at = at.After(c.op, 9)
		}
		if k != (Kept{at, c.leftOut, c.waiting, Position{}, 0}) || k.At.Number != c.number {
			t.Errorf("operation %d, %+d items: %+v", c.op, c.grow, k)
		}
		for grow := -2; grow <= 2; grow++ {
			may := c.op == Insert && grow == 1 || c.op == Delete && (grow == -1 || grow == 0) || c.op == AtLeastOne && (grow == 0 || grow == 1)
			if c.op.May(grow) != may {
				t.Errorf("operation %d may change the items by %d: %t", c.op, grow, !may)
			}
		}
	}
}
