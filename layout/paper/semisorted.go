package paper

import "github.com/mmapfilter/mmapfilter/layout"

// The SemiSorted layout: see sorted.go for the format of its buckets.
func init() {
	const words = 3 // a bucket of up to 124 bits may be in three words
	register(layout.SemiSorted, "semisorted", semiSortedParams(), sortedBits, words)
}

func sortedBits(p layout.Params) int { return numberBits + sortedBucket*(p.FingerprintBits-nibbleBits) }

func semiSortedParams() (all []layout.Params) {
	for f := minSortedBits; f <= maxSortedBits; f++ {
		all = append(all, layout.Params{FingerprintBits: f, BucketSize: sortedBucket})
	}
	return all
}
