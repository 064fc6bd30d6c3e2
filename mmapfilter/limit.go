package mmapfilter

import (
	"math"
	"sort"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A filter that is full has at most overRate times the false-positive rate that was asked
// for. The slots alone bound it in a large filter, whose stash is a small part of it. A
// small one would take several times its capacity into the stash.
const overRate = 1.5

// scatter is how much the rate of a table of so many keys may be above the one predicted,
// relative to it: overflow bits differ from table to table, and rates of full ones have a
// standard deviation of 0.6/√keys to 0.9/√keys.
func scatter(keys uint64) float64 { return 3 / math.Sqrt(float64(keys)) }

// noLimit is that of a filter which takes what its slots and its stash have room for.
const noLimit = math.MaxUint64

// keyLimit is how many keys a filter takes (C4): as many as it can have at the rate that
// its superblock says was asked for, times overRate; but at least its capacity. Keys that
// one entry of the stash counts are one key here. They give no more matches than one does.
//
// The limit is on keys and not on entries of the stash, so that no filter is refused a key
// before it has as many as its capacity, however its keys happen to fall. And where a rate
// was asked for that only a table with many free slots has, the slots alone are too many.
//
// Options.FingerprintBits asks for no rate: then there is no limit.
func keyLimit(sb *layout.Superblock, g layout.Geometry) uint64 {
	within := func(keys uint64) bool {
		margin := max(rateMargin, 1+scatter(keys))
		return layout.PredictKeys(g, keys).Rate()*margin <= overRate*sb.TargetRate()
	}
	most := g.Slots() + layout.StashEntries
	if within(most) || sb.TargetRate() == impliedRate(g, sb.DesignLoad()) {
		return noLimit
	}
	// The most keys of which one more are too many: rates rise with the keys.
	keys := sort.Search(int(most), func(keys int) bool { return !within(uint64(keys) + 1) })
	return max(uint64(keys), sb.Capacity())
}

// impliedRate is what a superblock has for the rate asked where the fingerprint was
// given in place of a rate.
func impliedRate(g layout.Geometry, designLoad float64) float64 {
	return significant(significant(layout.Predict(g.Kind, g.Params, designLoad).Rate()) * rateMargin)
}

// keysOf is how many keys a filter has, in the sense of keyLimit: items, of which the
// stash has some in its entries. Only damage makes it less than nothing.
func keysOf(items, inStash uint64, entries int) uint64 {
	return max(items+uint64(entries), inStash) - inStash
}

// atLimit reports whether the filter has all keys that it may have. One that an earlier
// version filled may have more. REQUIRES: w.mu.
func (w *writer) atLimit() bool {
	return keysOf(w.log.Length(), w.mu.inStash, w.mu.stashLen) >= w.limit
}
