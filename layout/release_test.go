package layout_test

import (
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestStoreRelease: who sees a store sees those before it, in whatever order they are.
func TestStoreRelease(t *testing.T) {
	const rounds = 1 << 20
	var words [2][64]uint64 // of different cache lines
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := uint64(1); n <= rounds; n++ {
			at := n % 64
			layout.StoreRelease(&words[0][at], n)
			layout.StoreRelease(&words[1][0], n)
		}
	}()
	for seen := uint64(0); seen < rounds; {
		seen = atomic.LoadUint64(&words[1][0])
		if first := atomic.LoadUint64(&words[0][seen%64]); first < seen {
			t.Fatalf("the second store of %d is seen, of the first that of %d", seen, first)
		}
	}
	<-done
}
