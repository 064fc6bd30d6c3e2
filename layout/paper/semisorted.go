package paper

import "github.com/mmapfilter/mmapfilter/layout"

// The SemiSorted layout: see sorted.go for the format of its buckets.
func init() {
	layout.Register(layout.SemiSorted, &layout.Spec{
		Name:         "semisorted",
		Params:       semiSortedParams(),
		ItemBits:     func(p layout.Params) int { return p.FingerprintBits },
		SlotsPerLine: func(p layout.Params) int { return sortedBucket },
		LineBits:     sortedBits,
		Loads:        pairLoads,
		Bounds:       pairBounds(3), // that a bucket of up to 124 bits may be in
		Predict: func(p layout.Params, load float64) layout.Absent {
			return pairPredict(p, sortedBucket*load)
		},
		Crowded: pairCrowded,
		Bind: func(p layout.Params, lines uint64) layout.Table {
			return newTable(layout.SemiSorted, p, lines, uint64(sortedBits(p)))
		},
	})
}

func sortedBits(p layout.Params) int { return numberBits + sortedBucket*(p.FingerprintBits-nibbleBits) }

func semiSortedParams() (all []layout.Params) {
	for f := minSortedBits; f <= maxSortedBits; f++ {
		all = append(all, layout.Params{FingerprintBits: f, BucketSize: sortedBucket})
	}
	return all
}
