package mmapfilter

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/builder"
)

// rateMargin allows for predictions that are up to 2 % too low. A prediction takes its overflow
// figures from a table measured in steps; they also depend a little on the order of inserts and
// scatter in small filters.
const rateMargin = 1.02

// A Plan is the size and properties of the filter that [Options] describe.
type Plan struct {
	Capacity        uint64
	Layout          Layout
	FingerprintBits int     // f
	BucketSize      int     // b
	DesignLoad      float64 // items / slots when the filter holds Capacity items
	Lines           uint64  // of 64 bytes in Blocked and Compact; buckets in Packed and SemiSorted
	FileBytes       int64   // size of the sealed file
	BitsPerKey      float64 // bits of the whole file / Capacity; 0 if Capacity is 0
	PredictedRate   float64 // false-positive rate when the filter holds Capacity items
	SecondProbeRate float64 // share of lookups of absent keys that read a second line

	geometry layout.Geometry
}

// A candidate is a layout with parameters and the highest design load that meets the requested
// rate.
type candidate struct {
	kind          layout.Kind
	params        layout.Params
	percent       uint64 // design load
	rate, second  float64
	bitsPerKey    float64 // of the lines
	linesPerProbe float64
	lasts         bool // most lookups read one line, however much is deleted and inserted
}

// Plan works out the filter that the options describe. If they cannot be met, the error is an
// [*OptionError].
//
// If Layout is Auto, Plan considers every layout, with all fingerprint lengths, bucket sizes and
// design loads whose predicted rate is at most the requested one. It prefers, in this order,
// layouts that last and read one line, which is Compact; the fewest lines read in a lookup, to the
// nearest whole line; and the smallest size. So Compact is chosen wherever it reaches the rate,
// also where Blocked would be smaller (at rates near 1 in 100,000), and also for a filter that
// [Build] makes and nobody deletes from.
func (o *Options) Plan() (Plan, error) {
	if err := o.Validate(); err != nil {
		return Plan{}, err
	}
	d := o.withDefaults()
	return d.plan(d.Capacity)
}

// plan is Plan for valid options with defaults, and a capacity that may be a count of keys.
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
	if err := p.geometry.CheckShard(o.shard); err != nil {
		return Plan{}, optionError("Capacity", "%d keys in each shard are too many: %v", capacity, err)
	}
	p.FileBytes = p.geometry.SealedBytes
	if capacity > 0 {
		p.BitsPerKey = float64(p.FileBytes) * 8 / float64(capacity)
	}
	return p, nil
}

// significant rounds to 4 digits. A prediction may be stored in a file, and its last bits depend
// on whether a machine fuses multiplications with additions.
func significant(x float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return r
}

func (c candidate) betterThan(d candidate) bool {
	if c.lasts != d.lasts {
		return c.lasts
	}
	if a, b := math.Round(c.linesPerProbe), math.Round(d.linesPerProbe); a != b {
		return a < b
	}
	return c.bitsPerKey < d.bitsPerKey
}

// candidates lists the candidates that meet the options. If none does, the error says why.
func (o *Options) candidates(capacity uint64) ([]candidate, error) {
	d := o.withDefaults()
	var all []candidate
	known := false // some layout has the requested fingerprint and bucket
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
			c.rate, c.second, c.lasts = predicted.Rate(), predicted.Second, predicted.Own
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
		return nil, optionError("FalsePositiveRate", "%.3g is below the lowest rate that can be reached, %.3g", d.FalsePositiveRate, 1.005*lowest)
	case d.FingerprintBits != 0 && d.BucketSize != 0:
		return nil, optionError("FingerprintBits", "%s f=%d with b=%d; %s", lacks(d.Layout), d.FingerprintBits, d.BucketSize, listParams(d.Layout))
	case d.FingerprintBits != 0:
		return nil, optionError("FingerprintBits", "%s f=%d; %s", lacks(d.Layout), d.FingerprintBits, listParams(d.Layout))
	}
	return nil, optionError("BucketSize", "%s b=%d; %s", lacks(d.Layout), d.BucketSize, listParams(d.Layout))
}

// mayBe reports whether kind may be chosen if Options.Layout is asked.
func mayBe(asked, kind Layout) bool {
	return asked == kind || asked == Auto && layout.Choosable(kind)
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
func linesFor(capacity, slotPercent, lineBits uint64) (uint64, error) {
	hi, lo := bits.Mul64(capacity, 100)
	lo, carry := bits.Add64(lo, slotPercent-1, 0)
	hi += carry
	if hi >= slotPercent {
		return 0, optionError("Capacity", "%d keys are more than a file can hold", capacity)
	}
	lines, _ := bits.Div64(hi, lo, slotPercent)
	return builder.RoundUp(max(lines, 1), lineBits), nil
}

// newSuperblock returns the first superblock of a file, without state, UUID and
// signature.
func newSuperblock(p Plan, o Options) (sb layout.Superblock) {
	sb.SetGeneration(1)
	sb.SetGeometry(p.geometry)
	sb.SetSeed(o.Seed)
	sb.SetCapacity(p.Capacity)
	sb.SetTargetRate(o.FalsePositiveRate)
	if o.FingerprintBits != 0 {
		sb.SetTargetRate(impliedRate(p.geometry, p.DesignLoad))
	}
	sb.SetDesignLoad(p.DesignLoad)
	sb.SetNormalisation(o.Normalisation)
	if o.KeepHashes {
		sb.SetKeepsHashes(o.AutoGrow)
	}
	sb.SetShard(o.shard)
	sb.SetShardIdentity(o.identity)
	return sb
}

// lacks begins an error about an f or b that no eligible layout has.
func lacks(k Layout) string {
	if k == Auto {
		return "no layout has"
	}
	return "layout " + k.String() + " has no"
}

// listParams lists the legal f and b for an error message.
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
	return "f,b can be " + strings.Join(parts, "; ")
}

// building returns the part of the options that a build needs. o has its defaults filled in.
func (o Options) building() builder.Config {
	return builder.Config{
		Seed:         o.Seed,
		Shard:        o.shard,
		Capacity:     o.Capacity,
		Distinct:     o.Distinct,
		Workers:      o.Workers,
		MemoryBudget: o.MemoryBudget,
		Progress:     o.Progress,
		Keep:         o.KeepHashes,
		Identity:     rand.Uint64(),
		Now:          uint64(time.Now().UnixNano()),
		Plan: func(capacity uint64) (builder.Plan, error) {
			p, err := o.plan(capacity)
			if err != nil {
				return builder.Plan{}, err
			}
			sb := newSuperblock(p, o)
			return builder.Plan{
				Geometry:   p.geometry,
				Superblock: sb,
				Limit:      keyLimit(&sb, p.geometry),
				Beyond:     fmt.Sprintf("would raise the false-positive rate above %g times %g", overRate, sb.TargetRate()),
			}, nil
		},
	}
}
