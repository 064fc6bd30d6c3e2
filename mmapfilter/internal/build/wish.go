package build

import "github.com/mmapfilter/mmapfilter/layout"

// A Wish says what a filter is to be.
type Wish struct {
	Capacity        uint64
	Rate            float64     // the largest acceptable one with Capacity keys, unless FingerprintBits is given
	Layout          layout.Kind // or layout.Auto
	FingerprintBits int         // 0: any
	BucketSize      int         // 0: any
	Shard           layout.Shard
}

// mayBe reports whether kind may be chosen if a layout is asked for.
func mayBe(asked, kind layout.Kind) bool {
	return asked == kind || asked == layout.Auto && layout.Choosable(kind)
}
