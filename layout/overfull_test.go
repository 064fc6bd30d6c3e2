package layout_test

import (
	"math"
	"testing"

	. "github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
)

// TestPredictKeys: in a large table that is not full it is Predict, but for items that are
// in their alternate line and count once; and it rises with every key, past the last slot
// as before. (Package mmapfilter holds it against tables.)
func TestPredictKeys(t *testing.T) {
	for _, kind := range Kinds() {
		for _, p := range LegalParams(kind) {
			g, err := NewGeometry(kind, p, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, percent := range []uint64{30, 75, 98} {
				keys := g.Slots() * percent / 100
				got, want := PredictKeys(g, keys).Rate(), Predict(kind, p, float64(keys)/float64(g.Slots())).Rate()
				if math.Abs(got/want-1) > 0.01 {
					t.Errorf("%s %+v at %d %%: %g, and by Predict %g", kind, p, percent, got, want)
				}
			}
			last := 0.0
			for keys := g.Slots() / 2; keys < 2*g.Slots(); keys += 1 + g.Slots()/500 {
				rate := PredictKeys(g, keys).Rate()
				if rate <= last {
					t.Fatalf("%s %+v: %g with %d keys of %d slots, and with fewer %g", kind, p, rate, keys, g.Slots(), last)
				}
				last = rate
			}
		}
	}
}
