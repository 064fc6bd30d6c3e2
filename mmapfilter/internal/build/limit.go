package build

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// The rate of a full filter is at most OverRate times the requested false-positive rate. In a
// large filter the slots alone ensure that, since the stash is a small part of it. A small
// filter could take several times its capacity into the stash.
const OverRate = 1.5

// NoLimit is the limit of a filter that is full only when its slots and stash are full.
const NoLimit = math.MaxUint64

// Limit returns how many keys a filter takes (C4): as many as keep its rate within OverRate
// times the requested rate in the superblock, but at least its capacity. Keys counted in one
// stash entry are one key here, since they cause no more matches than one key does.
//
// The limit is on keys, not on stash entries, so that no filter refuses a key before it holds
// its capacity, however its keys happen to fall. Usually the slots alone are too few for it.
//
// If f was given, no rate was requested, and there is no limit.
func Limit(sb *layout.Superblock, g layout.Geometry) uint64 {
	// n keys cause at most n times the matches of one, wherever they are.
	one := layout.Predict(g.Kind, g.Params, 1/float64(g.Slots())).Rate
	keys := OverRate * sb.TargetRate() / one
	if keys >= float64(g.Slots()+layout.StashEntries) || g.Params.FingerprintBits != 0 && sb.TargetRate() == ImpliedRate(g, sb.DesignLoad()) {
		return NoLimit
	}
	return max(uint64(keys), sb.Capacity())
}

// ImpliedRate is the requested rate that a superblock records if f was given instead of a rate.
func ImpliedRate(g layout.Geometry, designLoad float64) float64 {
	return significant(layout.Predict(g.Kind, g.Params, designLoad).Rate)
}
