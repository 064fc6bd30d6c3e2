package paper

import "github.com/mmapfilter/mmapfilter/layout"

// The Packed layout, the cuckoo filter of the paper (section 3). A bucket is b
// slots of f bits, slot 0 lowest, with nothing between them and nothing between
// one bucket and the next. An example with f=12 and b=4, of 48 bits a bucket:
//
//	word 0                                                   63       48 47              0
//	                                                        ┌───────────┬────────────────┐
//	                                                        │ bucket 1… │    bucket 0    │
//	                                                        └───────────┴────────────────┘
//	word 1                                                  63        32 31              0
//	                                                        ┌───────────┬────────────────┐
//	                                                        │ bucket 2… │   …bucket 1    │
//	                                                        └───────────┴────────────────┘
const (
	minPackedBits = 4
	maxPackedBits = 32
)

func init() {
	layout.Register(layout.Packed, &layout.Spec{
		Name:         "packed",
		Params:       packedParams(),
		ItemBits:     func(p layout.Params) int { return p.FingerprintBits },
		SlotsPerLine: func(p layout.Params) int { return p.BucketSize },
		LineBits:     func(p layout.Params) int { return p.BucketSize * p.FingerprintBits },
		Loads:        pairLoads,
		Bounds:       pairBounds(2), // that a slot of up to 32 bits may be in
		Predict: func(p layout.Params, load float64) layout.Absent {
			return pairPredict(p, float64(p.BucketSize)*load)
		},
		Crowded: pairCrowded,
		Bind: func(p layout.Params, lines uint64) layout.Table {
			return newTable(layout.Packed, p, lines, uint64(p.BucketSize*p.FingerprintBits))
		},
	})
}

func packedParams() (all []layout.Params) {
	for f := minPackedBits; f <= maxPackedBits; f++ {
		for b := 1; b <= maxBucket; b *= 2 {
			all = append(all, layout.Params{FingerprintBits: f, BucketSize: b})
		}
	}
	return all
}
