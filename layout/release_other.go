//go:build !amd64 || race

package layout

import "sync/atomic"

// StoreRelease is an atomic store, where it is no dearer, or must be seen by the race detector.
func StoreRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
