package guard

import (
	"sync/atomic"
)

// counts are incremented by many goroutines, so each count is divided into stripes.
type counts struct {
	stripe     [16]counted
	unfiltered atomic.Uint64
	replayed   atomic.Uint64
}

type counted struct {
	skipped, passed, truePositives, falsePositives atomic.Uint64
	_                                              [32]byte
}

func (c *counts) of(hash uint64) *counted { return &c.stripe[hash%uint64(len(c.stripe))] }

// absent returns for how many absent keys the store was skipped, and how many passed.
func (c *counts) absent() (skipped, passed uint64) {
	for i := range c.stripe {
		skipped += c.stripe[i].skipped.Load()
		passed += c.stripe[i].falsePositives.Load()
	}
	return skipped, passed
}
