//go:build faults

package mmapfilter

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/mistake"
)

// TestScheduleMistakes has the enumeration find the mistakes that readers suffer
// from, and no other.
//
//	go test -tags faults ./mmapfilter -run TestScheduleMistakes -v
func TestScheduleMistakes(t *testing.T) {
	defer func() { mistake.Current = mistake.None }()
	for _, m := range []mistake.Mistake{mistake.None, mistake.LazyCounters, mistake.RemoveBeforeCopy, mistake.LiveReplay} {
		mistake.Current = m
		p := newProof()
		p.mistaken = true
		for lines := uint64(2); lines <= 3; lines++ {
			for _, from := range sources {
				p.operations(t, from, newStage(t, lines, 1), 80)
			}
			p.deaths(t, newStage(t, lines, 2), 3)
		}
		if missed := p.missed[""]; (missed != "") != (m != mistake.None) {
			t.Errorf("with the mistake %q, a key is missed in: %q", m, missed)
		}
		t.Logf("%s: %s", m, p.missed[""])
	}
	mistake.Current = mistake.LazyCounters
	c := comesHome(t, committed)
	if c.lookUp(func(word uint64) bool { return word == counterOfLine(c.second) }, nil) {
		t.Error("a lookup with lazy counters finds a key that comes home between its looks")
	}
}
