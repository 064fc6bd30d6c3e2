package paper

import "github.com/mmapfilter/mmapfilter/layout"

// The Packed layout, the cuckoo filter of the paper (section 3). A bucket is b
// slots of f bits, slot 0 lowest, with nothing between them and nothing between
// one bucket and the next. For example, f=12 and b=4 give a bucket of 48 bits:
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
	const words = 2 // a slot of up to 32 bits may be in two words
	register(layout.Packed, "packed", packedParams(), packedBits, words)
}

func packedBits(p layout.Params) int { return p.BucketSize * p.FingerprintBits }

func packedParams() (all []layout.Params) {
	for f := minPackedBits; f <= maxPackedBits; f++ {
		for b := 1; b <= maxBucket; b *= 2 {
			all = append(all, layout.Params{FingerprintBits: f, BucketSize: b})
		}
	}
	return all
}
