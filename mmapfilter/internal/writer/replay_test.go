package writer

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestReplay covers K3: operations come out of a tap in the order in which they went in, whether they
// have been in a file or not, and replaying them leads to the same items.
func TestReplay(t *testing.T) {
	s := tabletest.Compact(38, 10)
	old, next := mustWriter(t, s.Volume(t, 400), 1<<20), mustWriter(t, s.Volume(t, 500), 1<<20)
	rng := rand.New(rand.NewPCG(3, 4))
	var there []uint64
	insert := func() {
		h := rng.Uint64()
		must(t, old.Insert(h))
		there = append(there, h)
	}
	for range 5000 {
		insert()
	}
	for _, h := range there {
		must(t, next.Insert(h))
	}
	tap := newTap(t)
	must(t, old.Quiet(tap, func() error { return nil }))
	ops := tapOps * (tapChunks + 3)
	if testing.Short() {
		ops = tapOps + 100
	}
	for i := range ops {
		if len(there) < 4000 || len(there) < 6000 && rng.IntN(2) == 0 {
			insert()
			continue
		}
		j := rng.IntN(len(there))
		if i%3 == 0 {
			j = len(there) - 1 // the last one of the list
		}
		if ok, err := old.Delete(there[j]); err != nil || !ok {
			t.Fatal(ok, err)
		}
		there[j] = there[len(there)-1]
		there = there[:len(there)-1]
	}
	if tap.Len() != ops || !testing.Short() && tap.file == nil {
		t.Errorf("%d operations, file %v", tap.Len(), tap.file)
	}
	for tap.Len() > 0 {
		hashes, kinds, err := tap.Take(nil, nil, 1000)
		if err == nil {
			_, err = next.Replay(hashes, kinds)
		}
		if err != nil {
			t.Fatalf("the replay: %v", err)
		}
	}
	if next.Len() != uint64(len(there)) || next.Len() != old.Len() {
		t.Errorf("the replay: %d items, not %d", next.Len(), len(there))
	}
	for _, h := range there {
		if !next.Contains(h) {
			t.Fatalf("the replay: %x is lost", h)
		}
	}
}
