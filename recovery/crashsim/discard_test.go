package crashsim

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// discarded returns a volume whose writer died after a failed sync of the region, and whose log is then
// removed.
func discarded(t *testing.T, seed uint64) *Volume {
	t.Helper()
	v := testVolume(t, 512)
	v.reseed(seed)
	w, _, err := recovery.NewWriter(v)
	must(t, err)
	must(t, w.Begin(wal.MinBytes))
	w.Append([]wal.Store{{Word: layout.WordRegion, Value: 1 << 1}}, 1, layout.Insert, 0)
	must(t, w.Harden(w.EndSegment(false, 0)))
	v.FailOdds = 1
	w.BeginCheckpoint()
	if err := w.EndCheckpoint(); err == nil {
		t.Fatal("no error")
	}
	v.FailOdds = 0
	must(t, v.RemoveLogs())
	return v
}

// TestDiscardStoresAgain checks that DiscardLog makes the items that it counted durable. It must store
// all words again: after a failed sync, the cache differs from the disk, and another sync does not help.
func TestDiscardStoresAgain(t *testing.T) {
	for seed := uint64(1); seed < 40; seed++ {
		v := discarded(t, seed)
		found, err := recovery.DiscardLog(v)
		if err != nil || !found.Discarded || found.Length != 1 {
			t.Fatal(found, err)
		}
		for word := range v.filter.cache.words {
			if c, d := v.filter.cache.words[word], v.filter.durable.words[word]; c != d {
				t.Fatalf("seed %d: word %d is %d in the cache, but %d on the disk", seed, word, c, d)
			}
		}
	}
}

// TestDiscardBeginsAgain checks that a crash after any store or sync of DiscardLog leaves a
// file on which DiscardLog succeeds again.
func TestDiscardBeginsAgain(t *testing.T) {
	total := 0
	for crash := 1; ; crash++ {
		v := discarded(t, 7)
		v.events, v.next = 0, crash
		type cut struct{}
		v.hook = func(Event) { panic(cut{}) }
		done := func() (done bool) {
			defer func() {
				if r := recover(); r != nil {
					if _, ok := r.(cut); !ok {
						panic(r)
					}
				}
			}()
			if _, err := recovery.DiscardLog(v); err != nil {
				t.Fatal(err)
			}
			return true
		}()
		if done {
			break
		}
		v.hook, v.next = nil, 0
		total++
		if found, err := recovery.DiscardLog(v); err != nil || found.Length != 1 {
			t.Fatalf("crash after event %d: %+v, %v", crash, found, err)
		}
		if _, found, err := recovery.NewWriter(v); err != nil || found.Length != 1 || found.Recovered {
			t.Fatalf("crash after event %d: opened: %+v, %v", crash, found, err)
		}
	}
	if total < 1000 {
		t.Errorf("only %d crashes", total)
	}
}

// TestRecoveryStoresAgain checks that a recovery makes the counters and all lines durable even if an
// earlier recovery failed at a sync, so that its stores are in the cache, but not on the disk. A counter
// that stayed odd on the disk would become even in the middle of an operation of a later process.
func TestRecoveryStoresAgain(t *testing.T) {
	failed := 0
	for seed := uint64(1); seed < 40; seed++ {
		for n := 1; ; n++ {
			v := testVolume(t, 512)
			v.reseed(seed)
			w, _, err := recovery.NewWriter(v)
			must(t, err)
			must(t, w.Begin(wal.MinBytes))
			w.Append([]wal.Store{{Word: layout.WordRegion, Value: 1 << 1, Guarded: true}}, 1, layout.Insert, 0)
			must(t, w.Harden(w.EndSegment(false, 0)))
			counter := layout.WordRuntime + layout.CounterOf(layout.WordRegion)
			v.Filter().Store(counter, 3) // as in the middle of an operation
			must(t, v.Filter().Sync())
			v.FailAt, v.syncs = n, 0
			if _, _, err := recovery.NewWriter(v); err == nil {
				break
			}
			failed++
			_, _, err = recovery.NewWriter(v)
			must(t, err)
			for word := range v.filter.cache.words {
				c, d := v.filter.cache.words[word], v.filter.durable.words[word]
				if c != d && (uint64(word) >= layout.WordStash || uint64(word) == counter) {
					t.Fatalf("seed %d, sync %d: word %d is %d in the cache, but %d on the disk", seed, n, word, c, d)
				}
			}
		}
	}
	if failed < 100 {
		t.Errorf("only %d recoveries have failed", failed)
	}
}
