package blocked

import "github.com/mmapfilter/mmapfilter/layout/kernel"

// run does the groups of a batch.
func (b *batch) run(kernel.ISA) { batchNEON(b) }

//go:noescape
func batchNEON(b *batch)
