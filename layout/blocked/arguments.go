package blocked

// A batch is what a kernel for batches needs, in the order in which the assembly loads
// it.
type batch struct {
	region, runtime *uint64
	hashes          *uint64
	found           *bool  // what the home lines say
	open            *uint8 // a bit for each hash that they leave open
	groups          uint64 // of 8 hashes, at least one

	lines, values, ones, highs, lanes uint64 // those of the table
}
