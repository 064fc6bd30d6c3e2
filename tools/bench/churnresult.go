package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// Bounds of the default layout. filledBound bounds the share of lookups of absent keys that read
// a second line when the filter has just been filled, and secondBound the same share after
// turnovers; both allow for chance. costBound bounds the cost of the last turnovers over the
// cost of the first.
const (
	filledBound = 0.09
	secondBound = 0.08
	costBound   = 1.25
)

// bitsBounds bound the bits a key of the default layout by rate, of filters with at least manyKeys.
// With fewer keys, the last line, which may be nearly empty, counts too much.
var bitsBounds = map[float64]float64{0.05: 7.4, 0.01: 9.85, 0.001: 13.5, 0.0001: 17.1}

const manyKeys = 100_000

// fewTurnovers is how many turnovers a cost is the median of. The cost is compared with its
// bound if twice as many turnovers were measured.
const fewTurnovers = 5

// A churnResult holds the measurements of one filter.
type churnResult struct {
	name, shape, kind string
	asked             float64
	keys              uint64
	bitsPerKey        float64
	grown             float64   // bits a key at the end, over those at the beginning
	filled            float64   // ns a key to fill it
	ns                []float64 // of a delete and an insert, by turnover
	points            []churnPoint
}

// isDefault reports whether options with only a rate have made the filter.
func (r *churnResult) isDefault() bool { return r.name == defaultFilled || r.name == defaultBuilt }

// cost returns what a delete and an insert cost around a turnover, counted from 1. It is the median
// of fewTurnovers turnovers, or of half of all turnovers if these are fewer: around turnover 1, of
// the first turnovers; around the last one, of the last turnovers.
func (r *churnResult) cost(turnover int) float64 {
	few := min(fewTurnovers, (len(r.ns)+1)/2)
	from := min(max(turnover-1-few/2, 0), len(r.ns)-few)
	return figures.Median(r.ns[from : from+few])
}

// last returns the measurements after all turnovers.
func (r *churnResult) last() churnPoint { return r.points[len(r.points)-1] }

// above returns how many bits a key takes beyond log2(1/rate), the least that any filter needs. The
// rate is the one measured last. It returns "-" if no absent key was answered "maybe".
func (r *churnResult) above() string {
	if r.last().positives == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r.bitsPerKey+math.Log2(r.last().rate()))
}

// exceeded reports which bounds the default exceeds.
func (r *churnResult) exceeded() error {
	if !r.isDefault() {
		return nil
	}
	var all []error
	bad := func(format string, args ...any) {
		all = append(all, fmt.Errorf("%s, rate %s, %s: "+format, append([]any{r.name, percent(r.asked), r.kind}, args...)...))
	}
	for _, p := range r.points {
		if p.missing > 0 || p.unfound > 0 {
			bad("after %d turnovers %d keys are missing, and %d were not found when they were deleted", p.turnovers, p.missing, p.unfound)
		}
		bound := secondBound
		if p.turnovers == 0 {
			bound = filledBound
		}
		if p.second > bound+3*p.off {
			bad("after %d turnovers %s of absent keys read a second line", p.turnovers, percent(p.second))
		}
	}
	last := r.last()
	if last.refused > 0 {
		bad("%d inserts into a filter with room were refused", last.refused)
	}
	if limit := r.asked + 3*math.Sqrt(r.asked*(1-r.asked)/float64(last.asks)); last.rate() > limit {
		bad("the rate is %s after %d turnovers", percent(last.rate()), last.turnovers)
	}
	if last.stash > layout.MaxCrowded {
		bad("%d entries of the stash were in use", last.stash)
	}
	if bound := bitsBounds[r.asked]; bound > 0 && r.keys >= manyKeys && r.bitsPerKey > bound {
		bad("a key takes %.2f bits", r.bitsPerKey)
	}
	if r.grown > 1 {
		bad("a key takes %.3f times as many bits as when the filter was empty", r.grown)
	}
	if len(r.ns) >= 2*fewTurnovers {
		if first, after := r.cost(1), r.cost(len(r.ns)); after > costBound*first {
			bad("a delete and an insert cost %s ns, and %s ns after %d turnovers", figures.Digits(first), figures.Digits(after), last.turnovers)
		}
	}
	return errors.Join(all...)
}

// A churnPoint holds the measurements after some number of turnovers.
type churnPoint struct {
	turnovers       int
	asks, positives uint64
	second, off     float64 // share of second lines, and its standard error
	missing         uint64  // keys in the filter that are not found
	unfound         uint64  // deletes so far that did not find a key in the filter
	refused         uint64  // inserts so far that found no room
	stash           int     // most entries of the stash in use so far, at the end of a turnover
}

func (p churnPoint) rate() float64 { return float64(p.positives) / float64(p.asks) }
