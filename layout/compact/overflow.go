package compact

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// secondLines predicts the share of lookups of absent keys that read a second line, in a table
// filled by inserts. (After Build, it is half to two thirds of that.) The share is 8 % if a line
// has a certain number of keys, which follows from b and from the room for guests. For each per cent
// of keys fewer, the share falls by a fifth. The factors are fitted to simulated tables with all Q and
// all r from 5 on. At design loads the prediction is within a tenth of the simulation. At lower
// loads, more lookups read a second line than predicted.
func secondLines(p layout.Params, load float64) float64 {
	q, r, b := float64(quotientBits(p.Quotients)), float64(p.RemainderBits), float64(slotsOf(p))
	left := guestsEnd - 1 - float64(p.Quotients) - b*(r+1)
	keys := 1.0373*b - 0.563*math.Sqrt(b) + 0.844 + (0.578*left-0.075*b*q)/(q+r)
	return 0.08 * math.Exp(20*(b*load/keys-1))
}
