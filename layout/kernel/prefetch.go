//go:build amd64 || arm64

package kernel

// Prefetch asks for the cache line of a word without waiting for it. It never faults.
//
//go:noescape
func Prefetch(p *uint64)

//go:noescape
func prefetchBlocks(region, blocks *uint64, n int)

// PrefetchBlocks prefetches blocks of 64 bytes of a region, given by number, in one burst.
func PrefetchBlocks(region, blocks []uint64) {
	if len(blocks) > 0 {
		prefetchBlocks(&region[0], &blocks[0], len(blocks))
	}
}
