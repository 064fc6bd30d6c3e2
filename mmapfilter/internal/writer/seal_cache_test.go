package writer_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
)

// TestSealStoresWhatIsInTheCache covers W6 and F13 after a failed sync. The checksums of a sealed file
// are computed from the cache, so the disk must have the contents of the cache, including the words of
// the runtime page, which are in no log. Each sync of a life fails in turn; then the filter is opened
// again, on the same cache, and sealed.
func TestSealStoresWhatIsInTheCache(t *testing.T) {
	for _, sectorBytes := range []int{8, 64, 4096} {
		failing := 1
		for sealAfterFailure(t, sectorBytes, failing) {
			failing++
		}
		if t.Logf("%d syncs", failing-1); failing < 20 {
			t.Error("too few syncs")
		}
	}
}

// sealAfterFailure runs a life up to the failing sync, seals the file, and checks it after a power loss.
// It reports whether a sync has failed.
func sealAfterFailure(t *testing.T, sectorBytes, failing int) bool {
	t.Helper()
	g, err := layout.NewGeometry(layout.Compact, layout.Params{Quotients: 25, RemainderBits: 26}, 3)
	must(t, err)
	v := crashsim.NewVolume(g, 1, sectorBytes, false, nil)
	v.FailAt = failing
	if err := sealedLife(v); err == nil && v.Failed == 0 {
		return false
	} else if (err == nil) != (v.Failed == 0) {
		t.Errorf("sync %d fails: %v", failing, err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(failing)))
	v = v.AfterKill(rng)
	must(t, openReplica(t, v).Seal(context.Background()))
	after := v.AfterPowerLoss(rng)
	cache, disk := v.Filter().Words(), after.Filter().Words()
	for word := layout.WordRuntime; word < len(cache); word++ { // before these words, a slot may have an older superblock
		if disk[word] != cache[word] {
			t.Fatalf("after sync %d has failed, word %d of the file is %#x in the cache, and %#x on the disk", failing, word, cache[word], disk[word])
		}
	}
	// A superblock copy may be cut short until a process opens the file for writing.
	openReplica(t, after)
	if err := crashVerify(after.Filter().Words()); err != nil {
		t.Errorf("after sync %d has failed, and a power loss: %v", failing, err)
	}
	return true
}

// sealedLife makes calls up to the first that fails, and returns its error.
func sealedLife(v *crashsim.Volume) error {
	w, _, err := writer.Open(v, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes})
	rng := rand.New(rand.NewPCG(1, 1))
	var keys []uint64
	insert := func() error {
		keys = append(keys, rng.Uint64())
		return w.Insert(keys[len(keys)-1])
	}
	remove := func() error {
		_, err := w.Delete(keys[0])
		keys = keys[1:]
		return err
	}
	for range 3 {
		for _, call := range []func() error{
			insert, insert, insert, insert, insert, insert,
			func() error { return w.SyncAt(func(uint64) uint64 { return 1 }) },
			remove, w.Sync, w.Checkpoint, insert, w.Sync,
			func() error { return w.Seal(context.Background()) },
		} {
			if err == nil {
				err = call()
			}
		}
	}
	return err
}
