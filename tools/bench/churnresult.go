package main

import (
	"fmt"
	"math"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// fewTurnovers is how many turnovers a cost is the median of.
const fewTurnovers = 5

// A churnResult holds the measurements of one filter.
type churnResult struct {
	name, shape, kind string
	asked             float64
	bitsPerKey        float64
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

// A churnPoint holds the measurements after some number of turnovers.
type churnPoint struct {
	turnovers       int
	asks, positives uint64
	second          float64 // share of second lines
	missing         uint64  // keys in the filter that are not found
	unfound         uint64  // deletes so far that did not find a key in the filter
	refused         uint64  // inserts so far that found no room
	stash           int     // most entries of the stash in use so far, at the end of a turnover
}

func (p churnPoint) rate() float64 { return float64(p.positives) / float64(p.asks) }
