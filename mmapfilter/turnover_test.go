package mmapfilter

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestTurnovers covers C1, C2 and C4 over a long life: a filter that names a rate and nothing
// else is filled to its capacity, and then random keys are replaced, five times as many as it
// has. No insert finds it full, no key is missing, the measured rate is at most the requested
// one, and at most 8 % of lookups of absent keys read a second line. If deletes brought no guest
// home, about 12 % would.
func TestTurnovers(t *testing.T) {
	t.Parallel() // uses only one processor
	const (
		keys, turnovers = 20_000, 5
		absent          = 300_000
		mostSecond      = 0.08
	)
	for _, asked := range []float64{0.01, 0.001} {
		t.Run(fmt.Sprintf("asked=%g", asked), func(t *testing.T) {
			f, err := Create(filepath.Join(memoryDir(t), "f"), &Options{Capacity: keys, FalsePositiveRate: asked, CommitInterval: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rng := seeded(t, 23)
			live := make([]uint64, 0, keys)
			insert := func() uint64 {
				h := rng.Uint64()
				if err := f.InsertHash(h); err != nil {
					t.Fatalf("with %d keys: %v", f.Len(), err)
				}
				return h
			}
			for len(live) < keys {
				live = append(live, insert())
			}
			for range turnovers {
				for range keys {
					i := rng.IntN(keys)
					if ok, err := f.DeleteHash(live[i]); !ok || err != nil {
						t.Fatalf("deleting a key: %t, %v", ok, err)
					}
					live[i] = insert()
				}
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			missing := 0
			for _, h := range live {
				if !f.ContainsHash(h) {
					missing++
				}
			}
			if missing > 0 || f.Len() != keys {
				t.Errorf("%d of %d keys are missing, and Len says %d", missing, keys, f.Len())
			}
			wrong := 0
			for range absent {
				if f.ContainsHash(rng.Uint64()) {
					wrong++
				}
			}
			rate := float64(wrong) / absent
			if limit := asked + 4*standardError(asked, absent); rate > limit {
				t.Errorf("the rate is %g, %g was asked for", rate, asked)
			}
			if s := f.Stats(); s.Layout != layout.Compact {
				t.Errorf("the layout is %s", s.Layout)
			}
			w := writerOf(f)
			o := measureOverflow(w.Table(), newestState(w), live)
			if o.second > mostSecond {
				t.Errorf("%.4f of lookups of absent keys read a second line", o.second)
			}
			t.Logf("rate %g, second lines %.4f, away %.4f", rate, o.second, o.away)
		})
	}
}
