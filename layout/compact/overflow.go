package compact

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// secondLines predicts the share of lookups of absent keys that read a second line, in a table filled
// by inserts; Build fills one with about two thirds of that. It is 8 % with a number of keys in a line
// that follows from b and from the room that guests have, and falls by a fifth with each per cent less.
// The factors are fitted to simulated tables with each Q and r of 5 bits and more; at design loads they
// are within a tenth of what was simulated. Below, more lookups read a second line than it says.
func secondLines(p layout.Params, load float64) float64 {
	q, r, b := float64(quotientBits(p.Quotients)), float64(p.RemainderBits), float64(slotsOf(p))
	left := guestsEnd - 1 - float64(p.Quotients) - b*(r+1)
	keys := 1.0373*b - 0.563*math.Sqrt(b) + 0.844 + (0.578*left-0.075*b*q)/(q+r)
	return 0.08 * math.Exp(20*(b*load/keys-1))
}
