package build

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Wish says what filter a caller wants.
type Wish struct {
	Capacity        uint64
	Rate            float64     // the largest acceptable rate with Capacity keys, unless FingerprintBits is given
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

// A Size describes a filter that meets a Wish.
type Size struct {
	Geometry   layout.Geometry
	DesignLoad float64
	Rate       float64 // predicted for a filter with Capacity keys
}

// A candidate has parameters of a layout, and the highest design load that meets the
// requested rate with them.
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
	if best.predicted.Rate <= w.Rate { // the rounded rate may be above w.Rate
		rate = min(rate, w.Rate)
	}
	return Size{g, float64(best.percent) / 100, rate}, nil
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

// candidate returns the candidate with the parameters p. If p does not meet the wish at any load, it
// returns the candidate with the lowest rate, and ok is false.
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

// hasRoom reports whether the stash suffices for a table with capacity keys and a design
// load in percent.
func hasRoom(k layout.Kind, p layout.Params, capacity, percent uint64) bool {
	load := float64(percent) / 100
	lines := float64(capacity) / (float64(layout.SlotsPerLine(k, p)) * load)
	return layout.Crowded(k, p, lines, load) <= layout.MaxCrowded
}

// linesFor returns the number of lines for capacity keys. slotPercent is the number of slots
// of a line times the design load in percent.
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

const (
	// minTaskBits is the smallest range of TaskCount: 64 KiB, which fits in any cache. A task
	// usually fills several of these: see minRangeBits.
	minTaskBits = 8 * 65536
	maxTasks    = maxParts // a task has whole partitions
)

// TaskCount returns into how many ranges of lines a build can divide a region: the largest power of
// two that leaves each at least minTaskBits.
func TaskCount(lines, lineBits uint64) uint64 {
	high, size := bits.Mul64(lines, lineBits)
	if high > 0 {
		return maxTasks
	}
	if size < 2*minTaskBits {
		return 1
	}
	return min(uint64(1)<<(bits.Len64(size/minTaskBits)-1), maxTasks)
}

// RoundUp rounds a number of lines up to a multiple of TaskCount, and further if lines share
// words, so that each range of lines starts where a range of hashes and a word start.
// That adds at most 0.1 %.
func RoundUp(lines, lineBits uint64) uint64 {
	tasks := TaskCount(lines, lineBits)
	unit := tasks
	for tasks > 1 && unit/tasks*lineBits%64 != 0 {
		unit *= 2
	}
	return (lines + unit - 1) / unit * unit
}

// A Refusal says which part of a wish cannot be met, and why.
type Refusal struct {
	Field  string // as in mmapfilter.Options
	Reason string
}

func refuse(field, format string, args ...any) *Refusal {
	return &Refusal{field, fmt.Sprintf(format, args...)}
}

// refuseParams refuses FingerprintBits or BucketSize for a layout without f and b.
func (w Wish) refuseParams() *Refusal {
	field := ""
	switch {
	case w.FingerprintBits != 0:
		field = "FingerprintBits"
	case w.BucketSize != 0:
		field = "BucketSize"
	}
	if field == "" || w.Layout != layout.Auto && w.Layout != layout.Compact {
		return nil
	}
	return refuse(field, "only packed and semisorted have an f and a b to choose; the parameters of compact follow from the rate")
}

// refusal says why there is no candidate. known says that the layout has the f and b of the wish;
// lowest is the lowest rate that can be reached with them.
func (w Wish) refusal(known bool, lowest float64) *Refusal {
	switch f, b := w.FingerprintBits, w.BucketSize; {
	case known && f != 0:
		return refuse("FingerprintBits", "f=%d is too short to tell %d keys apart", f, w.Capacity)
	case known:
		return refuse("FalsePositiveRate", "%.3g is below the lowest rate that can be reached, %.3g", w.Rate, lowest)
	case f != 0 && b != 0:
		return refuse("FingerprintBits", "layout %s has no f=%d with b=%d; %s", w.Layout, f, b, listParams(w.Layout))
	case f != 0:
		return refuse("FingerprintBits", "layout %s has no f=%d; %s", w.Layout, f, listParams(w.Layout))
	default:
		return refuse("BucketSize", "layout %s has no b=%d; %s", w.Layout, b, listParams(w.Layout))
	}
}

// listParams lists the legal f and b, for the text of a Refusal.
func listParams(k layout.Kind) string {
	all := layout.LegalParams(k)
	var sizes []string
	for _, p := range all {
		if b := strconv.Itoa(p.BucketSize); !slices.Contains(sizes, b) {
			sizes = append(sizes, b)
		}
	}
	return fmt.Sprintf("f can be %d to %d, and b %s", all[0].FingerprintBits, all[len(all)-1].FingerprintBits, strings.Join(sizes, "|"))
}

// The rate of a full filter is at most OverRate times the requested false-positive rate. In a large
// filter the number of slots ensures that, since the stash is small in comparison. A small filter could
// take several times its capacity into the stash.
const OverRate = 1.5

// NoLimit is the Limit of a filter that is full only when its slots and its stash are full.
const NoLimit = math.MaxUint64

// Limit returns how many keys a filter takes (C4): as many as keep its rate within OverRate
// times the requested rate in the superblock, but at least its capacity. All keys of one stash entry are
// one key here, since together they match no more absent keys than one key does.
//
// The limit is on keys, not on stash entries, so that no filter refuses a key before it
// holds its capacity, whichever lines its keys fall into. Usually the slots are used up
// before the limit is reached.
//
// If f was given, no rate was requested, and there is no limit.
func Limit(sb *layout.Superblock, g layout.Geometry) uint64 {
	// n keys, wherever they are, match at most n times as many absent keys as one key does.
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
