package writer

import (
	"runtime"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestSyncBesideASync covers C1: a sync that begins while another one waits for the disk must not return
// before all earlier operations are durable, even if they are all in the batch of the other sync, so
// that its own batch is empty.
func TestSyncBesideASync(t *testing.T) {
	for name, second := range map[string]func(w *Writer) error{
		"sync":       (*Writer).Sync,
		"sync at":    func(w *Writer) error { return w.SyncAt(func(uint64) uint64 { return 7 }) },
		"checkpoint": (*Writer).Checkpoint,
		"clean":      (*Writer).Clean,
	} {
		t.Run(name, func(t *testing.T) { syncBesideASync(t, second) })
	}
}

func syncBesideASync(t *testing.T, second func(w *Writer) error) {
	v := small.Volume(t, 100)
	syncing, goOn, block := waitingSyncs(v)
	w := mustWriter(t, v, 0)
	key := seeded(t, 1).Uint64()
	must(t, w.Insert(key))
	block.Store(true)
	first := make(chan error, 1)
	go func() { first <- w.SyncAt(func(uint64) uint64 { return 7 }) }()
	<-syncing
	block.Store(false)

	returned := make(chan error, 1)
	go func() {
		err := second(w)
		if seq, _, _ := w.protocol.Durable(); err == nil && (seq != 7 || !layout.Contains(w.table, viewOf(w), key)) {
			t.Error("it returned before what was done before it was durable")
		}
		returned <- err
	}()
	for !waitsForLock("writer.(*Writer).") && len(returned) == 0 {
		runtime.Gosched()
	}
	goOn <- struct{}{}
	for _, done := range []chan error{first, returned} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// waitsForLock reports whether a goroutine waits for a lock in a function whose name contains the given
// text.
func waitsForLock(function string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		state, calls, _ := strings.Cut(stack, "\n")
		if strings.Contains(state, "[sync.Mutex.Lock") && strings.Contains(calls, function) {
			return true
		}
	}
	return false
}
