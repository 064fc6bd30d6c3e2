package layout

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

var packedSpec = spec{
	params:       packedParams(),
	itemBits:     func(p Params) int { return p.FingerprintBits },
	slotsPerLine: func(p Params) int { return p.BucketSize },
	lineBits:     func(p Params) int { return p.BucketSize * p.FingerprintBits },
	loads:        pairLoads,
	predict: func(p Params, load float64) Overflow {
		return pairPredict(p, float64(p.BucketSize)*load)
	},
	crowded: pairCrowded,
	bind: func(p Params, lines uint64) Table {
		return newPair(Packed, p, lines, uint64(p.BucketSize*p.FingerprintBits))
	},
}

func packedParams() (all []Params) {
	for f := minPackedBits; f <= maxPackedBits; f++ {
		for b := 1; b <= maxBucket; b *= 2 {
			all = append(all, Params{f, b})
		}
	}
	return all
}
