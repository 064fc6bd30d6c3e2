//go:build !386 && !arm && !mips && !mipsle

package kernel

import "sync/atomic"

// Load loads a word that another process may be storing to.
func Load(p *uint64) uint64 { return atomic.LoadUint64(p) }
