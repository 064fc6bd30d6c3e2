package main

import (
	"math/rand/v2"
	"testing"
)

// reads returns the loops of the limit.
func reads(l *limit) map[string]func(int) uint64 {
	return map[string]func(int) uint64{"prefetched": l.prefetched, "plain": l.plain, "chain": l.chain}
}

// TestLimitCounts counts reads by the sum of the words read, which a loop returns. A loop must read as
// many lines as it was told to, and each line about equally often.
func TestLimitCounts(t *testing.T) {
	const lines, n = 64, 100_000
	words := make([]uint64, lines*lineWords)
	for name := range reads(newLimit(words, 1)) {
		total := uint64(0)
		for line := range lines {
			clear(words)
			words[line*lineWords] = 1
			// The chain depends on the words that it reads, so it reads other lines each time.
			got := reads(newLimit(words, 1))[name](n)
			total += got
			if got < n/lines*8/10 || got > n/lines*12/10 {
				t.Errorf("%s: of %d reads, %d are of line %d, one of %d lines", name, n, got, line, lines)
			}
		}
		if name != "chain" && total != n {
			t.Errorf("%s: %d reads of %d", name, total, n)
		}
		for line := range lines {
			words[line*lineWords] = 1
		}
		l := newLimit(words, 1)
		if a, b := reads(l)[name](n), reads(l)[name](1); a != n || b != 1 {
			t.Errorf("%s: %d reads of %d, and %d of 1", name, a, n, b)
		}
	}
}

// TestLimitReadsWhatItAsksFor checks that prefetched reads the same lines as plain, and that a second
// call reads other lines.
func TestLimitReadsWhatItAsksFor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := make([]uint64, 1000*lineWords)
	for i := range words {
		words[i] = rng.Uint64()
	}
	ahead, plain := newLimit(words, 7), newLimit(words, 7)
	first := ahead.prefetched(5000)
	if got := plain.plain(5000); got != first {
		t.Errorf("the lines that prefetched and plain read add up to %d and %d", first, got)
	}
	if ahead.prefetched(5000) == first {
		t.Error("the second call has read the same lines")
	}
}
