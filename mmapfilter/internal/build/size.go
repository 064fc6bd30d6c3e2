package build

import (
	"math/bits"
	"strconv"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Size is what a filter is.
type Size struct {
	Geometry   layout.Geometry
	DesignLoad float64
	Rate       float64 // predicted with the keys of the wish
	Second     float64 // share of lookups of absent keys that read a second line
}

// A candidate is a layout with parameters and the highest design load that meets the requested
// rate.
type candidate struct {
	kind         layout.Kind
	params       layout.Params
	percent      uint64 // design load
	rate, second float64
	bitsPerKey   float64 // of the lines
}

// Size returns the best size that meets a wish, or says why there is none.
func (w Wish) Size() (Size, *Refusal) {
	all, refused := w.candidates()
	if refused != nil {
		return Size{}, refused
	}
	best := all[0]
	for _, c := range all[1:] {
		if c.bitsPerKey < best.bitsPerKey {
			best = c
		}
	}
	slots := uint64(layout.SlotsPerLine(best.kind, best.params))
	lines, refused := linesFor(w.Capacity, slots*best.percent, uint64(layout.LineBits(best.kind, best.params)))
	if refused != nil {
		return Size{}, refused
	}
	g, err := layout.NewGeometry(best.kind, best.params, lines)
	if err != nil {
		return Size{}, refuse("Capacity", "%d keys are too many: %v", w.Capacity, err)
	}
	if err := g.CheckShard(w.Shard); err != nil {
		return Size{}, refuse("Capacity", "%d keys in each shard are too many: %v", w.Capacity, err)
	}
	rate := significant(best.rate)
	if best.rate <= w.Rate { // as it is, but perhaps not rounded
		rate = min(rate, w.Rate)
	}
	return Size{g, float64(best.percent) / 100, rate, best.second}, nil
}

// Check says why no layout meets a wish, or returns nil. The number of lines may still be too large.
func (w Wish) Check() *Refusal {
	_, refused := w.candidates()
	return refused
}

// significant rounds to 4 digits. A prediction may be stored in a file, and its last bits depend
// on whether a machine fuses multiplications with additions.
func significant(x float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return r
}

// candidates lists the candidates that meet the wish. If none does, it says why.
func (w Wish) candidates() ([]candidate, *Refusal) {
	if refused := w.refuseParams(); refused != nil {
		return nil, refused
	}
	var all []candidate
	known := false // some layout has the requested fingerprint and bucket
	lowest := 1.0
	for _, kind := range layout.Kinds() {
		if !mayBe(w.Layout, kind) {
			continue
		}
		for _, p := range layout.LegalParams(kind) {
			if w.FingerprintBits != 0 && w.FingerprintBits != p.FingerprintBits || w.BucketSize != 0 && w.BucketSize != p.BucketSize {
				continue
			}
			known = true
			loads := layout.DesignLoads(kind, p)
			least, fits := uint64(loads.Least), func(percent uint64) bool {
				return layout.Predict(kind, p, float64(percent)/100).Rate <= w.Rate
			}
			c := candidate{kind: kind, params: p, percent: uint64(loads.Most)}
			if w.FingerprintBits != 0 {
				c.percent, least = uint64(loads.Usual), 1
				fits = func(uint64) bool { return true }
			}
			for c.percent >= least && !(fits(c.percent) && hasRoom(kind, p, w.Capacity, c.percent)) {
				c.percent--
			}
			load := float64(max(c.percent, least)) / 100
			predicted := layout.Predict(kind, p, load)
			c.rate, c.second = predicted.Rate, predicted.Second
			lowest = min(lowest, c.rate)
			if c.percent < least {
				continue
			}
			c.bitsPerKey = float64(layout.LineBits(kind, p)) / (float64(layout.SlotsPerLine(kind, p)) * load)
			all = append(all, c)
		}
	}
	if all == nil {
		return nil, w.refusal(known, lowest)
	}
	return all, nil
}

// hasRoom reports whether the stash suffices for a table with that many keys and that design
// load.
func hasRoom(k layout.Kind, p layout.Params, capacity, percent uint64) bool {
	load := float64(percent) / 100
	lines := float64(capacity) / (float64(layout.SlotsPerLine(k, p)) * load)
	return layout.Crowded(k, p, lines, load) <= layout.MaxCrowded
}

// linesFor returns the number of lines for capacity keys. slotPercent is the slots of a line
// times the design load in percent.
func linesFor(capacity, slotPercent, lineBits uint64) (uint64, *Refusal) {
	hi, lo := bits.Mul64(capacity, 100)
	lo, carry := bits.Add64(lo, slotPercent-1, 0)
	hi += carry
	if hi >= slotPercent {
		return 0, refuse("Capacity", "%d keys are more than a file can hold", capacity)
	}
	lines, _ := bits.Div64(hi, lo, slotPercent)
	return RoundUp(max(lines, 1), lineBits), nil
}
