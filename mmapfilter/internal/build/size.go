package build

import (
	"math/bits"
	"strconv"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Wish says what a filter is to be.
type Wish struct {
	Capacity        uint64
	Rate            float64     // the largest acceptable one with Capacity keys, unless FingerprintBits is given
	Layout          layout.Kind // or layout.Auto, which is Compact
	FingerprintBits int         // 0: any
	BucketSize      int         // 0: any
	Shard           layout.Shard
}

func (w Wish) kind() layout.Kind {
	if w.Layout == layout.Auto {
		return layout.Compact
	}
	return w.Layout
}

// A Size is what a filter is.
type Size struct {
	Geometry   layout.Geometry
	DesignLoad float64
	Rate       float64 // predicted with the keys of the wish
	Second     float64 // share of lookups of absent keys that read a second line
}

// A candidate is the parameters of a layout with the highest design load that meets the requested rate.
type candidate struct {
	params     layout.Params
	percent    uint64 // design load
	predicted  layout.Absent
	bitsPerKey float64 // of the lines
}

// Size returns the best size that meets a wish, or says why there is none.
func (w Wish) Size() (Size, *Refusal) {
	best, refused := w.best()
	if refused != nil {
		return Size{}, refused
	}
	kind := w.kind()
	slots := uint64(layout.SlotsPerLine(kind, best.params))
	lines, refused := linesFor(w.Capacity, slots*best.percent, uint64(layout.LineBits(kind, best.params)))
	if refused != nil {
		return Size{}, refused
	}
	g, err := layout.NewGeometry(kind, best.params, lines)
	if err != nil {
		return Size{}, refuse("Capacity", "%d keys are too many: %v", w.Capacity, err)
	}
	if err := g.CheckShard(w.Shard); err != nil {
		return Size{}, refuse("Capacity", "%d keys in each shard are too many: %v", w.Capacity, err)
	}
	rate := significant(best.predicted.Rate)
	if best.predicted.Rate <= w.Rate { // as it is, but perhaps not rounded
		rate = min(rate, w.Rate)
	}
	return Size{g, float64(best.percent) / 100, rate, best.predicted.Second}, nil
}

// Check says why no layout meets a wish, or returns nil. The number of lines may still be too large.
func (w Wish) Check() *Refusal {
	_, refused := w.best()
	return refused
}

// significant rounds to 4 digits. A prediction may be stored in a file, and its last bits depend
// on whether a machine fuses multiplications with additions.
func significant(x float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return r
}

// best returns the smallest candidate that meets the wish. If none does, it says why.
func (w Wish) best() (best candidate, refused *Refusal) {
	if refused := w.refuseParams(); refused != nil {
		return best, refused
	}
	known := false // the layout has the requested fingerprint and bucket
	lowest := 1.0
	for _, p := range layout.LegalParams(w.kind()) {
		if w.FingerprintBits != 0 && w.FingerprintBits != p.FingerprintBits || w.BucketSize != 0 && w.BucketSize != p.BucketSize {
			continue
		}
		known = true
		c, ok := w.candidate(p)
		if lowest = min(lowest, c.predicted.Rate); ok && (best.percent == 0 || c.bitsPerKey < best.bitsPerKey) {
			best = c
		}
	}
	if best.percent == 0 {
		return best, w.refusal(known, lowest)
	}
	return best, nil
}

// candidate returns the candidate with some parameters. If none meets the wish, it is the one with the
// lowest rate, and ok is false.
func (w Wish) candidate(p layout.Params) (c candidate, ok bool) {
	kind, loads := w.kind(), layout.DesignLoads(w.kind(), p)
	most, least := uint64(loads.Most), uint64(loads.Least)
	if w.FingerprintBits != 0 { // whatever the rate
		most, least = uint64(loads.Usual), 1
	}
	for percent := most; percent >= least && !ok; percent-- {
		c = candidate{params: p, percent: percent, predicted: layout.Predict(kind, p, float64(percent)/100)}
		ok = (w.FingerprintBits != 0 || c.predicted.Rate <= w.Rate) && hasRoom(kind, p, w.Capacity, percent)
	}
	load := float64(c.percent) / 100
	c.bitsPerKey = float64(layout.LineBits(kind, p)) / (float64(layout.SlotsPerLine(kind, p)) * load)
	return c, ok
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
