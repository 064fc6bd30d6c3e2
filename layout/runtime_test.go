package layout

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestPromise: a promise holds only for its salt. While one is being stored, and if that stops halfway,
// the promise before it holds.
func TestPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runtime := make([]uint64, RuntimeWords)
		word := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		salt, lsn := word("salt"), uint64(0)
		if got := Promise(runtime, salt); got != 0 {
			t.Fatalf("an empty page promises %d", got)
		}
		for turn := range rapid.IntRange(1, 5).Draw(t, "promises") {
			before := lsn
			lsn += rapid.Uint64Range(1, 1<<40).Draw(t, "step")
			n := 0
			PutPromise(func(word, value uint64) {
				n++
				runtime[word] = value
				if got := Promise(runtime, salt); got != before && got != lsn {
					t.Fatalf("after store %d of the promise of %d, after %d: %d", n, lsn, before, got)
				}
			}, turn, salt, lsn)
			if got := Promise(runtime, salt); got != lsn {
				t.Fatalf("promised %d, got %d", lsn, got)
			}
		}
		if other := word("other salt"); other != salt && Promise(runtime, other) != 0 {
			t.Fatal("a promise holds for another salt")
		}
	})
}

// TestCountersOfWords: the words of a block of the region share a counter, all words of the stash share
// one of their own, and no counter is the epoch or part of a promise.
func TestCountersOfWords(t *testing.T) {
	listed := make(map[uint64]bool)
	Counters(func(word uint64) {
		if word >= RuntimeWords || word == RuntimeEpoch || word >= runtimePromises && word < runtimePromises+2*promisePlaces || listed[word] {
			t.Errorf("counter %d", word)
		}
		listed[word] = true
	})
	used := make(map[uint64]bool)
	for word := uint64(WordStash); word < WordRegion+1000*BlockWords; word++ {
		c := CounterOf(word)
		used[c] = true
		if (word < WordRegion) != (c == RuntimeStashCounter) || word%BlockWords != 0 && c != CounterOf(word-1) {
			t.Fatalf("word %d has counter %d", word, c)
		}
	}
	if !maps.Equal(listed, used) {
		t.Errorf("%d counters are listed, %d are used", len(listed), len(used))
	}
}

// TestEpochAfter: a recovery ends with an epoch with which no lookup can have begun.
func TestEpochAfter(t *testing.T) {
	for _, odd := range []uint64{1, 3, 1<<63 - 1, Superseded} {
		after := EpochAfter(odd)
		if after&1 != 0 || after < odd && odd != Superseded || after == 0 || after == Superseded-1 {
			t.Errorf("epoch %d after %d", after, odd)
		}
	}
}
