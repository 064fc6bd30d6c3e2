package build

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

// refuseParams refuses an f or b of a layout that has none.
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
	return refuse(field, "only the layouts of the paper, packed and semisorted, have an f and a b; the others follow from the rate")
}

// refusal says why there is no candidate. known says that the layout has the f and b; the lowest rate
// that can be reached with these is lowest.
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

// listParams lists the legal f and b for a reason.
func listParams(k layout.Kind) string {
	all := layout.LegalParams(k)
	var sizes []string
	for _, p := range all {
		if b := strconv.Itoa(p.BucketSize); !slices.Contains(sizes, b) {
			sizes = append(sizes, b)
		}
	}
	return fmt.Sprintf("f,b can be %d to %d,%s", all[0].FingerprintBits, all[len(all)-1].FingerprintBits, strings.Join(sizes, "|"))
}
