package mmapfilter

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
)

// rateMargin is what a prediction may be too low by: 2 % of it. The figures of
// overflow that it is made of come from a table measured in steps, and depend a
// little on the order of inserts; those of small filters scatter.
const rateMargin = 1.02

// A Plan is a size of filter: what [Options] ask for, and what comes of it.
type Plan struct {
	Capacity        uint64
	Layout          Layout
	FingerprintBits int     // f
	BucketSize      int     // b
	DesignLoad      float64 // items over slots when it holds Capacity items
	Lines           uint64
	FileBytes       int64
	BitsPerKey      float64 // of the whole file
	PredictedRate   float64 // false positives, at Capacity, second lines included
	SecondProbeRate float64 // share of absent keys whose lookup reads a second line

	geometry layout.Geometry
}

// A candidate is a layout with parameters and the highest design load that
// meets the rate asked for.
type candidate struct {
	kind          layout.Kind
	params        layout.Params
	percent       uint64 // design load
	rate, second  float64
	bitsPerKey    float64 // of the lines
	linesPerProbe float64
}

// Plan works out the filter that these options ask for. It reports options
// that cannot be met as an [*OptionError].
//
// Auto prefers fewer lines read in a lookup (to the nearest whole line), then
// less space, over all layouts but Compact, and all fingerprints, buckets and
// design loads whose predicted rate is at most the one asked for.
func (o *Options) Plan() (Plan, error) {
	if err := o.Validate(); err != nil {
		return Plan{}, err
	}
	d := o.withDefaults()
	return d.plan(d.Capacity)
}

// plan is Plan for valid options with defaults filled in, and a capacity that
// may be one that was counted.
func (o *Options) plan(capacity uint64) (Plan, error) {
	all, err := o.candidates(capacity)
	if err != nil {
		return Plan{}, err
	}
	best := all[0]
	for _, c := range all[1:] {
		if c.betterThan(best) {
			best = c
		}
	}
	p := Plan{
		Capacity:        capacity,
		Layout:          best.kind,
		FingerprintBits: best.params.FingerprintBits,
		BucketSize:      best.params.BucketSize,
		DesignLoad:      float64(best.percent) / 100,
		PredictedRate:   significant(best.rate),
		SecondProbeRate: best.second,
	}
	slots := uint64(layout.SlotsPerLine(best.kind, best.params))
	p.Lines, err = linesFor(capacity, slots*best.percent, uint64(layout.LineBits(best.kind, best.params)))
	if err != nil {
		return Plan{}, err
	}
	p.geometry, err = layout.NewGeometry(best.kind, best.params, p.Lines)
	if err != nil {
		return Plan{}, optionError("Capacity", "%d keys are too many: %v", capacity, err)
	}
	p.FileBytes = p.geometry.SealedBytes
	if capacity > 0 {
		p.BitsPerKey = float64(p.FileBytes) * 8 / float64(capacity)
	}
	return p, nil
}

// significant rounds to 4 digits. The last bits of a prediction differ between
// machines that fuse multiplications with additions and those that do not, and
// it may be stored in a file.
func significant(x float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return r
}

func (c candidate) betterThan(d candidate) bool {
	if a, b := math.Round(c.linesPerProbe), math.Round(d.linesPerProbe); a != b {
		return a < b
	}
	return c.bitsPerKey < d.bitsPerKey
}

// candidates lists what meets the options; if nothing does, it says why.
func (o *Options) candidates(capacity uint64) ([]candidate, error) {
	d := o.withDefaults()
	var all []candidate
	known := false // a layout with the fingerprint and bucket that were asked for
	lowest := 1.0
	for _, kind := range layout.Kinds() {
		if !mayBe(d.Layout, kind) {
			continue
		}
		for _, p := range layout.LegalParams(kind) {
			if d.FingerprintBits != 0 && d.FingerprintBits != p.FingerprintBits || d.BucketSize != 0 && d.BucketSize != p.BucketSize {
				continue
			}
			known = true
			loads := layout.DesignLoads(kind, p)
			least, fits := uint64(loads.Least), func(percent uint64) bool {
				return layout.Predict(kind, p, float64(percent)/100).Rate()*rateMargin <= d.FalsePositiveRate
			}
			c := candidate{kind: kind, params: p, percent: uint64(loads.Most)}
			if d.FingerprintBits != 0 {
				c.percent, least = uint64(loads.Usual), 1
				fits = func(uint64) bool { return true }
			}
			for c.percent >= least && !(fits(c.percent) && hasRoom(kind, p, capacity, c.percent)) {
				c.percent--
			}
			load := float64(max(c.percent, least)) / 100
			predicted := layout.Predict(kind, p, load)
			c.rate, c.second = predicted.Rate(), predicted.Second
			lowest = min(lowest, c.rate*rateMargin)
			if c.percent < least {
				continue
			}
			c.linesPerProbe = 1 + c.second
			c.bitsPerKey = float64(layout.LineBits(kind, p)) / (float64(layout.SlotsPerLine(kind, p)) * load)
			all = append(all, c)
		}
	}
	switch {
	case all != nil:
		return all, nil
	case known && d.FingerprintBits != 0:
		return nil, optionError("FingerprintBits", "f=%d is too short to tell %d keys apart", d.FingerprintBits, capacity)
	case known:
		return nil, optionError("FalsePositiveRate", "%.3g is below what can be reached, %.3g", d.FalsePositiveRate, 1.005*lowest)
	case d.FingerprintBits != 0 && d.BucketSize != 0:
		return nil, optionError("FingerprintBits", "no %s has f=%d with b=%d; %s", describe(d.Layout), d.FingerprintBits, d.BucketSize, listParams(d.Layout))
	case d.FingerprintBits != 0:
		return nil, optionError("FingerprintBits", "no %s has f=%d; %s", describe(d.Layout), d.FingerprintBits, listParams(d.Layout))
	}
	return nil, optionError("BucketSize", "no %s has b=%d; %s", describe(d.Layout), d.BucketSize, listParams(d.Layout))
}

// mayBe reports whether a layout is one that was asked for. Compact must be asked for
// by its name: it is smaller than Blocked, and its lookups and inserts take longer.
func mayBe(asked, kind Layout) bool {
	return asked == kind || asked == Auto && kind != Compact
}

// hasRoom reports whether a table for so many keys, with a design load, has enough
// of a stash.
func hasRoom(k layout.Kind, p layout.Params, capacity, percent uint64) bool {
	load := float64(percent) / 100
	lines := float64(capacity) / (float64(layout.SlotsPerLine(k, p)) * load)
	return layout.Crowded(k, p, lines, load) <= layout.MaxCrowded
}

// linesFor gives the number of lines for capacity keys, slotPercent being the
// slots of a line times the design load in hundredths.
//
// It is rounded up to a multiple of taskCount, and more where lines share words,
// so that the ranges of lines that Build fills in parallel start where ranges of
// hashes start, and at a word; that is at most 0.1 % more.
func linesFor(capacity, slotPercent, lineBits uint64) (uint64, error) {
	hi, lo := bits.Mul64(capacity, 100)
	lo, carry := bits.Add64(lo, slotPercent-1, 0)
	hi += carry
	if hi >= slotPercent {
		return 0, optionError("Capacity", "%d keys are more than a file holds", capacity)
	}
	lines, _ := bits.Div64(hi, lo, slotPercent)
	lines = max(lines, 1)
	tasks := taskCount(lines, lineBits)
	unit := tasks
	for tasks > 1 && unit/tasks*lineBits%64 != 0 {
		unit *= 2
	}
	return (lines + unit - 1) / unit * unit, nil
}

// taskCount is into how many ranges of lines Build cuts a region: the largest
// power of two that leaves each at least 64 KiB, which fits any cache, and no more
// than there are partitions.
func taskCount(lines, lineBits uint64) uint64 {
	high, size := bits.Mul64(lines, lineBits)
	if high > 0 {
		return maxTasks
	}
	if size < 2*minTaskBits {
		return 1
	}
	return min(uint64(1)<<(bits.Len64(size/minTaskBits)-1), maxTasks)
}

const (
	minTaskBits = 8 * 65536
	maxTasks    = maxParts
)

func describe(k Layout) string {
	if k == Auto {
		return "layout"
	}
	return "layout " + k.String()
}

// listParams lists the legal f and b, for an error.
func listParams(k Layout) string {
	const few = 16
	var parts []string
	for _, kind := range layout.Kinds() {
		if !mayBe(k, kind) {
			continue
		}
		all := layout.LegalParams(kind)
		text := ""
		for _, p := range all {
			text += fmt.Sprintf("%d,%d ", p.FingerprintBits, p.BucketSize)
		}
		if len(all) > few {
			var sizes []string
			for _, p := range all {
				if b := strconv.Itoa(p.BucketSize); !slices.Contains(sizes, b) {
					sizes = append(sizes, b)
				}
			}
			text = fmt.Sprintf("%d to %d,%s ", all[0].FingerprintBits, all[len(all)-1].FingerprintBits, strings.Join(sizes, "|"))
		}
		parts = append(parts, text+"in "+kind.String())
	}
	return "there are f,b = " + strings.Join(parts, "; ")
}
