package layout

// kernels: every arm64 processor has NEON. There is code for batches of Blocked alone.
func kernels() []kernel { return []kernel{neon, pureGo} }

// run does the groups of a batch.
func (b *blockedBatch) run(kernel) { blockedNEON(b) }

//go:noescape
func blockedNEON(b *blockedBatch)
