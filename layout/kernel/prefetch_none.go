//go:build !amd64 && !arm64

package kernel

import "sync/atomic"

// Prefetch loads the word, since this package has no prefetch instruction for this
// architecture. Nothing depends on the load, so the processor need not wait for it.
func Prefetch(p *uint64) { atomic.LoadUint64(p) }

// PrefetchBlocks prefetches blocks of 64 bytes of a region, given by number.
func PrefetchBlocks(region, blocks []uint64) {
	for _, block := range blocks {
		Prefetch(&region[block*8])
	}
}
