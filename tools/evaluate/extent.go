package main

// A scale says how large tables are.
type scale string

const (
	scaleSmall scale = "small" // minutes for all, on any machine
	scalePaper scale = "paper" // the sizes of the paper
)

// An extent says how large the tables of a scale are, and how much is measured.
type extent struct {
	bytes   uint64 // of a table
	oddSize uint64 // of a table whose number of buckets is not a power of two
	rounds  int    // of each timing; the median counts
	steps   int    // of occupancy, in figures 6, 7 and 8
	lookups int    // of one structure in a round
	absent  uint64 // most keys looked up for a false-positive rate

	loads []loadRun // figure 2

	items uint64 // in a filter of figures 3 and 4
	fStep int    // step between their fingerprints, in bits
	bloom []int  // bits an item of their Bloom filters
}

// A loadRun is a number of buckets in figure 2, the fingerprints to try, and how often to try
// each.
type loadRun struct {
	lines uint64
	f     []int
	runs  int
}

var extents = map[scale]*extent{
	scalePaper: {
		bytes:   192 << 20,
		oddSize: 200_000_000,
		rounds:  5,
		steps:   20,
		lookups: 250_000,
		absent:  20_000_000,
		loads: []loadRun{
			{1 << 15, []int{4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20}, 5},
			{1 << 20, []int{4, 5, 6, 7, 8, 10, 12, 16, 20}, 1},
			{1 << 25, []int{8, 12, 16}, 1},
		},
		items: 10_000_000,
		fStep: 2,
		bloom: []int{4, 6, 8, 10, 12, 14, 16, 18, 20, 22},
	},
	scaleSmall: {
		bytes:   3 << 20,
		oddSize: 3_125_000,
		rounds:  5,
		steps:   10,
		lookups: 40_000,
		absent:  4_000_000,
		loads: []loadRun{
			{1 << 12, []int{4, 5, 6, 8, 12, 20}, 3},
			{1 << 15, []int{4, 5, 6, 8, 12, 20}, 1},
			{1 << 18, []int{4, 6, 12}, 1},
		},
		items: 2_000_000,
		fStep: 3,
		bloom: []int{4, 7, 10, 13, 16, 19},
	},
}
