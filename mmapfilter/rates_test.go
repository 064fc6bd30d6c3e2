package mmapfilter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// manyKeys is how many keys the tests of rates work with.
func manyKeys() uint64 {
	if testing.Short() {
		return 300_000
	}
	return 10_000_000
}

// A rateCase is an f with its b, or a rate that is asked for.
type rateCase struct {
	name string
	opts Options
}

func rateCases() (cases []rateCase) {
	for _, p := range layout.LegalParams(layout.Blocked) {
		name := fmt.Sprintf("f=%d,b=%d", p.FingerprintBits, p.BucketSize)
		cases = append(cases, rateCase{name, Options{FingerprintBits: p.FingerprintBits, BucketSize: p.BucketSize}})
	}
	for _, rate := range []float64{0.05, 0.01, 0.001, 0.0001, 1e-6} {
		cases = append(cases, rateCase{fmt.Sprintf("asked=%g", rate), Options{FalsePositiveRate: rate}})
	}
	return cases
}

// TestRates bears C1 and C4 at design load: of 10 million keys none is
// answered absent; of as many absent ones no more are answered maybe than were
// asked for, plus three standard errors; and the prediction is not below what
// is measured, plus as much.
func TestRates(t *testing.T) {
	for _, c := range rateCases() {
		t.Run(c.name, func(t *testing.T) {
			r := measureRate(t, c.opts, manyKeys())
			if r.missing != 0 {
				t.Errorf("%d of %d keys are answered absent", r.missing, r.keys)
			}
			if limit := r.asked + 3*standardError(r.asked, r.keys); r.measured > limit {
				t.Errorf("the rate is %g, %g was asked for", r.measured, r.asked)
			}
			if limit := rateMargin*r.predicted + 3*standardError(r.predicted, r.keys); r.measured > limit {
				t.Errorf("the rate is %g, %g was predicted", r.measured, r.predicted)
			}
			t.Logf("asked %.4g, predicted %.4g, estimated %.4g, measured %.4g, %.2f bits per key, load %.3f, second probes %.3f",
				r.asked, r.predicted, r.stats.EstimatedRate, r.measured, r.stats.BitsPerKey, r.stats.Load, r.stats.SecondProbeRate)
		})
	}
}

type rateResult struct {
	keys, missing              uint64
	asked, predicted, measured float64
	stats                      Stats
}

// measureRate builds a filter of n keys and asks it for them and for as many
// absent ones.
func measureRate(tb testing.TB, opts Options, n uint64) rateResult {
	opts.Capacity = n
	plan, err := opts.Plan()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "f")
	f, err := Build(context.Background(), path, &opts, numbers(0, n))
	if err != nil {
		tb.Fatal(err)
	}
	defer os.Remove(path)
	defer f.Close()
	found, _ := countFound(f, numbers(0, n))
	wrong, _ := countFound(f, numbers(n, 2*n))
	s := f.Stats()
	return rateResult{keys: n, missing: n - uint64(found), asked: s.TargetRate, predicted: plan.PredictedRate,
		measured: float64(wrong) / float64(n), stats: s}
}

// standardError is that of a rate measured with n absent keys.
func standardError(rate float64, n uint64) float64 {
	return math.Sqrt(rate * (1 - rate) / float64(n))
}

// BenchmarkRates prints what was asked for, predicted and measured:
//
//	go test ./mmapfilter -run '^$' -bench Rates -benchtime 1x
func BenchmarkRates(b *testing.B) {
	for _, c := range rateCases() {
		b.Run(c.name, func(b *testing.B) {
			var r rateResult
			for b.Loop() {
				r = measureRate(b, c.opts, manyKeys())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.asked*100, "%asked")
			b.ReportMetric(r.predicted*100, "%predicted")
			b.ReportMetric(r.measured*100, "%measured")
			b.ReportMetric(r.stats.BitsPerKey, "bits/key")
			b.ReportMetric(100*r.stats.Load, "%load")
			b.ReportMetric(float64(r.missing), "missing")
		})
	}
}

// fillByInserts fills a table with random items, one by one, until the first
// that finds no slot, and gives the load then and the share of second probes
// at a load of 95 %.
func fillByInserts(tb testing.TB, params layout.Params, lines uint64) (full, second95 float64) {
	second95 = overflowByInserts(tb, layout.Blocked, params, lines, []int{95})[0].second
	p := testPlacer(tb, layout.Blocked, params, lines)
	slots := int(lines) * p.table.SlotsPerLine()
	rng := rand.New(rand.NewPCG(uint64(params.FingerprintBits), 95))
	for n := 0; ; n++ {
		p.insert(p.table.Split(rng.Uint64()))
		// An item that goes to the stash has found no slot.
		if n >= slots*9/10 && layout.StashLen(p.view.Stash) > 0 {
			return float64(n) / float64(slots), second95
		}
	}
}

// TestFill: before the first item finds no slot, a table is 99 % full; at 95 %
// fewer than 8 % of lookups of absent keys read a second line. Both hold for
// every f and b.
func TestFill(t *testing.T) {
	for _, params := range layout.LegalParams(layout.Blocked) {
		full, second := fillByInserts(t, params, manyKeys()/500)
		if full < 0.99 || second >= 0.08 {
			t.Errorf("f=%d: full at %.4f, second probes at 95 %%: %.4f", params.FingerprintBits, full, second)
		}
	}
}

// BenchmarkFill prints them:
//
//	go test ./mmapfilter -run '^$' -bench Fill -benchtime 1x
func BenchmarkFill(b *testing.B) {
	for _, params := range layout.LegalParams(layout.Blocked) {
		b.Run(fmt.Sprintf("f=%d,b=%d", params.FingerprintBits, params.BucketSize), func(b *testing.B) {
			var full, second float64
			for b.Loop() {
				full, second = fillByInserts(b, params, 100_000)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(full*100, "%full")
			b.ReportMetric(second*100, "%second@95")
			b.ReportMetric(100*overflowByBuild(b, layout.Blocked, params, 3_000_000, 95).second, "%second@95built")
		})
	}
}
