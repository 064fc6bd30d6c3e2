//go:build !amd64 && !arm64

package kernel

import "sync/atomic"

// Prefetch loads a word, where the instruction that would not wait for it is not
// used: what follows does not depend on the word, and need not wait either.
func Prefetch(p *uint64) { atomic.LoadUint64(p) }

func PrefetchBlocks(region, blocks []uint64) {
	for _, block := range blocks {
		Prefetch(&region[block*8])
	}
}
