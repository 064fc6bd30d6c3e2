package layout

import (
	"math/rand/v2"
	"testing"
)

// TestMarksAreExact: however entries come and go, a group is marked if and only if the search for some
// entry must go on past it.
func TestMarksAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	stash := make([]uint64, StashWords)
	store := func(word, value uint64, _ bool) { stash[word-WordStash] = value }
	var all []Class
	marked := 0
	for step := range 6000 {
		if filling := step/1000%2 == 0; len(all) == 0 || rng.IntN(4) > 0 == filling {
			if c := (Class{Line: rng.Uint64N(1 << 20), Fp: rng.Uint32N(1<<20) * rng.Uint32N(2)}); StashAdd(stash, c, store) {
				all = append(all, c)
			}
		} else {
			i := rng.IntN(len(all))
			if !StashRemove(stash, all[i], store) {
				t.Fatalf("step %d: an entry is lost", step)
			}
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
		}
		var want [stashGroups]bool
		for _, c := range all {
			at, ok := stashEntry(func(word uint64) uint64 { return stash[word-WordStash] }, c)
			if !ok {
				t.Fatalf("step %d: %+v is not found", step, c)
			}
			for g := c.firstGroup(); g != (at-WordStash)/groupWords*groupWords; g = nextGroup(g) {
				want[g/groupWords] = true
			}
		}
		for g, needed := range want {
			if got := stash[g*groupWords]&groupMark != 0; got != needed {
				t.Fatalf("step %d, %d entries: group %d is marked: %t", step, len(all), g, got)
			} else if got {
				marked++
			}
		}
	}
	if marked == 0 {
		t.Error("no group was ever marked")
	}
}
