package blocked

// A batch is the argument block of the batch kernels. The assembly reads its fields by offset: keep
// their order.
type batch struct {
	region, runtime *uint64
	hashes          *uint64
	found           *bool  // one for each hash: its home line has the fingerprint
	open            *uint8 // bit i%8 of open[i/8]: the home line of hash i does not settle it
	groups          uint64 // of 8 hashes, at least one

	lines, values, ones, highs, lanes uint64 // the fields of the same names in table
}
