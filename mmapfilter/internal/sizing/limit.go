package sizing

import (
	"math"
	"sort"

	"github.com/mmapfilter/mmapfilter/layout"
)

// The rate of a full filter is at most OverRate times the requested false-positive rate. In a
// large filter the slots alone ensure that, since the stash is a small part of it. A small
// filter could take several times its capacity into the stash.
const OverRate = 1.5

// Scatter is how far the rate of a table with that many keys may exceed the predicted rate,
// relative to it: overflow bits differ from table to table, and the rates of full tables have a
// standard deviation of 0.6/√keys to 0.9/√keys.
func Scatter(keys uint64) float64 { return 3 / math.Sqrt(float64(keys)) }

// NoLimit is the limit of a filter that is full only when its slots and stash are full.
const NoLimit = math.MaxUint64

// Limit returns how many keys a filter takes (C4): as many as keep its rate within OverRate
// times the requested rate in the superblock, but at least its capacity. Keys counted in one
// stash entry are one key here, since they cause no more matches than one key does.
//
// The limit is on keys, not on stash entries, so that no filter refuses a key before it holds
// its capacity, however its keys happen to fall. If the requested rate needs a table with many
// free slots, the slots alone are already too many.
//
// If f was given, no rate was requested, and there is no limit.
func Limit(sb *layout.Superblock, g layout.Geometry) uint64 {
	within := func(keys uint64) bool {
		margin := max(RateMargin, 1+Scatter(keys))
		return layout.PredictKeys(g, keys).Rate()*margin <= OverRate*sb.TargetRate()
	}
	most := g.Slots() + layout.StashEntries
	if within(most) || sb.TargetRate() == ImpliedRate(g, sb.DesignLoad()) {
		return NoLimit
	}
	// Find the most keys that are within the limit: rates rise with the keys.
	keys := sort.Search(int(most), func(keys int) bool { return !within(uint64(keys) + 1) })
	return max(uint64(keys), sb.Capacity())
}

// ImpliedRate is the requested rate that a superblock records if f was given instead of a rate.
func ImpliedRate(g layout.Geometry, designLoad float64) float64 {
	return significant(significant(layout.Predict(g.Kind, g.Params, designLoad).Rate()) * RateMargin)
}
