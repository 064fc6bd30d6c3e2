package mmapfilter

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestInsertBatchPlacesAsInsert: what a batch looks at ahead changes nothing but the time it
// takes. Every word of the region and of the stash is the same after every batch, up to the
// first insert that is refused, with commits in between, by which lines turn from pending ones
// into those of the mapping.
func TestInsertBatchPlacesAsInsert(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.String(), func(t *testing.T) {
			var writers [2]*Filter
			for i := range writers {
				writers[i] = createLines(t, filepath.Join(t.TempDir(), "f"), s, s.lines(40), Options{CommitInterval: -1})
				defer writers[i].Close()
			}
			one, many := writers[0], writers[1]
			rng := rand.New(rand.NewPCG(9, 10))
			for round, full := 0, false; !full; round++ {
				batch := make([]uint64, 1+rng.IntN(insertBlock))
				for i := range batch {
					batch[i] = rng.Uint64()
				}
				n, err := writerOf(many).insertAll(batch) // InsertBatch would hash with another seed
				full = err != nil
				if full && !errors.Is(err, ErrFull) || !full && n != len(batch) {
					t.Fatalf("%d of %d inserted, %v", n, len(batch), err)
				}
				for _, h := range batch[:n] {
					if err := one.InsertHash(h); err != nil {
						t.Fatal(err)
					}
				}
				if a, b := newestWords(one), newestWords(many); !slices.Equal(a, b) {
					t.Fatalf("round %d, %d items: a batch leaves other words than its inserts one by one", round, one.Len())
				}
				if round%3 == 0 {
					if err := errors.Join(one.Sync(), many.Sync()); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// newestWords are those of the stash and the region, with all that is pending.
func newestWords(f *Filter) (words []uint64) {
	w := writerOf(f)
	for i := range w.words[layout.WordStash:] {
		words = append(words, w.at(layout.WordStash+uint64(i)))
	}
	return words
}
