package sizing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Refusal says which part of a wish cannot be met, and why.
type Refusal struct {
	Field  string // as in mmapfilter.Options
	Reason string
}

func refuse(field, format string, args ...any) *Refusal {
	return &Refusal{field, fmt.Sprintf(format, args...)}
}

// refusal says why there is no candidate. known says that some layout has the f and b; the lowest rate
// that can be reached with these is lowest.
func (w Wish) refusal(known bool, lowest float64) *Refusal {
	switch f, b := w.FingerprintBits, w.BucketSize; {
	case known && f != 0:
		return refuse("FingerprintBits", "f=%d is too short to tell %d keys apart", f, w.Capacity)
	case known:
		return refuse("FalsePositiveRate", "%.3g is below the lowest rate that can be reached, %.3g", w.Rate, 1.005*lowest)
	case f != 0 && b != 0:
		return refuse("FingerprintBits", "%s f=%d with b=%d; %s", lacks(w.Layout), f, b, listParams(w.Layout))
	case f != 0:
		return refuse("FingerprintBits", "%s f=%d; %s", lacks(w.Layout), f, listParams(w.Layout))
	default:
		return refuse("BucketSize", "%s b=%d; %s", lacks(w.Layout), b, listParams(w.Layout))
	}
}

// lacks begins the reason about an f or b that no eligible layout has.
func lacks(k layout.Kind) string {
	if k == layout.Auto {
		return "no layout has"
	}
	return "layout " + k.String() + " has no"
}

// listParams lists the legal f and b for a reason.
func listParams(k layout.Kind) string {
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
