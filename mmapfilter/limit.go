package mmapfilter

import (
	"math"
	"sort"

	"github.com/mmapfilter/mmapfilter/layout"
)

// The rate of a full filter is at most overRate times the requested false-positive rate. In a
// large filter the slots alone ensure that, since the stash is a small part of it. A small
// filter could take several times its capacity into the stash.
const overRate = 1.5

// scatter is how far the rate of a table with that many keys may exceed the predicted rate,
// relative to it: overflow bits differ from table to table, and the rates of full tables have a
// standard deviation of 0.6/√keys to 0.9/√keys.
func scatter(keys uint64) float64 { return 3 / math.Sqrt(float64(keys)) }

// noLimit is the limit of a filter that is full only when its slots and stash are full.
const noLimit = math.MaxUint64

// keyLimit returns how many keys a filter takes (C4): as many as keep its rate within overRate
// times the requested rate in the superblock, but at least its capacity. Keys counted in one
// stash entry are one key here, since they cause no more matches than one key does.
//
// The limit is on keys, not on stash entries, so that no filter refuses a key before it holds
// its capacity, however its keys happen to fall. If the requested rate needs a table with many
// free slots, the slots alone are already too many.
//
// Options.FingerprintBits requests no rate, so there is no limit.
func keyLimit(sb *layout.Superblock, g layout.Geometry) uint64 {
	within := func(keys uint64) bool {
		margin := max(rateMargin, 1+scatter(keys))
		return layout.PredictKeys(g, keys).Rate()*margin <= overRate*sb.TargetRate()
	}
	most := g.Slots() + layout.StashEntries
	if within(most) || sb.TargetRate() == impliedRate(g, sb.DesignLoad()) {
		return noLimit
	}
	// Find the most keys that are within the limit: rates rise with the keys.
	keys := sort.Search(int(most), func(keys int) bool { return !within(uint64(keys) + 1) })
	return max(uint64(keys), sb.Capacity())
}

// impliedRate is the requested rate that a superblock records if Options.FingerprintBits was
// given instead of a rate.
func impliedRate(g layout.Geometry, designLoad float64) float64 {
	return significant(significant(layout.Predict(g.Kind, g.Params, designLoad).Rate()) * rateMargin)
}
