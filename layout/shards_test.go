package layout

import "testing"

// TestScratchForgets: the memory for a part, which is used again, refers to no table of a set.
func TestScratchForgets(t *testing.T) {
	h := NewHasher(1)
	asked := 0
	s := NewShards(1, &h)
	s.Set(0, NewDirect(nil, nil, &h, func(uint64) bool { asked++; return false }))
	b, hashes := new(setScratch), make([]uint64, LookupPart)
	s.containsIn(b, hashes, make([]bool, len(hashes)))
	if asked != len(hashes) {
		t.Errorf("%d of %d hashes were left open", asked, len(hashes))
	}
	for i, d := range b.directs {
		if d != nil {
			t.Fatalf("number %d stays", i)
		}
	}
}
