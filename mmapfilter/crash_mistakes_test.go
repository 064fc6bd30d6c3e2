//go:build faults

package mmapfilter

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/mistake"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
)

// mistakeBudget is how many crash states it may take to find a mistake.
const mistakeBudget = 100_000

// TestMistakes has the explorer find each of the seeded mistakes. There is no
// test of the explorer that is worth more: it shows that a protocol which makes
// one of them does not pass.
//
//	go test -tags faults ./mmapfilter -run TestMistakes -v
func TestMistakes(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	defer func() { mistake.Current = mistake.None }()
	table := fmt.Sprintf("%-50s %8s %8s  %s\n", "mistake", "states", "lookups", "found by")
	e := crashsim.Explorer{System: crashSystem(), Seed: *crashSeed, States: mistakeBudget, Workers: 1}
	if err := e.Prepare(); err != nil { // without a mistake
		t.Fatal(err)
	}
	explore := func(m mistake.Mistake) *crashsim.Violation {
		mistake.Current = m
		stats, violation := e.Run()
		found := "nothing"
		if violation != nil {
			what, _, _ := strings.Cut(violation.What, "\n")
			found = fmt.Sprintf("%s: %.60s", violation.Oracle, what)
		}
		table += fmt.Sprintf("%-50s %8d %8d  %s\n", m, stats.States, stats.Lookups, found)
		return violation
	}
	if v := explore(mistake.None); v != nil {
		t.Errorf("without a mistake: %v", v)
	}
	for _, m := range mistake.All() {
		if explore(m) == nil {
			t.Errorf("%s: not found", m)
		}
	}
	t.Logf("\n%s", table)
}
