//go:build !race

package layout

// StoreRelease gives a word a value, atomically: who sees it with an atomic load sees what was
// stored before it. A store of sync/atomic also keeps loads that follow from being made before
// it, and waits for all the cache lines that are still to be stored to. On amd64 every store is
// one with release (Intel SDM, volume 3, section 9.2.2).
//
//go:noescape
func StoreRelease(p *uint64, v uint64)
