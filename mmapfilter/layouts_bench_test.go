package mmapfilter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// turnLayouts are the layouts in which most lookups read one line.
var turnLayouts = []layout.Kind{layout.Blocked, layout.Compact}

// BenchmarkLayouts builds a filter of each of turnLayouts for one rate, in turn, from keys of 8
// bytes. Then each in turn looks up absent and present keys, one by one and 1,024 per call. The
// figures are medians per key; x/ is the time of Compact relative to that of Blocked.
//
// With the largest number of keys the files have about 1 GiB; they are built only once, which
// still takes most of the run.
//
//	go test ./mmapfilter -run '^$' -bench 'Layouts$'
func BenchmarkLayouts(b *testing.B) {
	const batch = 1024
	rounds := small(301, 3)
	for _, n := range small([]uint64{100_000, 30_000_000, 700_000_000}, []uint64{100_000}) {
		builds := small(5, 1)
		if n > 100_000_000 {
			builds = 1
		}
		for _, rate := range []float64{0.01, 0.003, 0.0005} {
			once(b, fmt.Sprintf("keys=%d/rate=%v", n, rate), func(b *testing.B) {
				dir := memoryDir(b)
				times := map[string]map[layout.Kind]*series{}
				of := func(what string, k layout.Kind) *series {
					if times[what] == nil {
						times[what] = map[layout.Kind]*series{}
					}
					if times[what][k] == nil {
						times[what][k] = new(series)
					}
					return times[what][k]
				}
				filters := map[layout.Kind]*Filter{}
				for i := range builds {
					for _, k := range turnLayouts {
						path := filepath.Join(dir, fmt.Sprint(k))
						of("build", k).timed(b, func() (err error) {
							filters[k], err = Build(context.Background(), path, &Options{Layout: k, FalsePositiveRate: rate, Capacity: n}, numbers(0, n))
							return err
						})
						if i < builds-1 {
							filters[k].Close()
						} else {
							defer filters[k].Close()
						}
					}
				}
				present := make([]uint64, 0, 1<<20)
				for key := range numbers(0, min(n, 1<<20)) {
					present = append(present, filters[layout.Blocked].Hash(key))
				}
				rng := rand.New(rand.NewPCG(3, 4))
				hashes, found := make([]uint64, batch), make([]bool, batch)
				for range rounds {
					for _, what := range []string{"absent", "present"} {
						fresh := func() {
							for i := range hashes {
								if hashes[i] = rng.Uint64(); what == "present" {
									hashes[i] = present[rng.IntN(len(present))]
								}
							}
						}
						for _, k := range turnLayouts {
							f := filters[k]
							fresh()
							of(what, k).timed(b, func() error {
								for _, h := range hashes {
									f.ContainsHash(h)
								}
								return nil
							})
							fresh()
							of(what+"-batch", k).timed(b, func() error {
								f.ContainsHashes(hashes, found)
								return nil
							})
						}
					}
				}
				for _, k := range turnLayouts {
					s := filters[k].Stats()
					b.ReportMetric(s.BitsPerKey, fmt.Sprintf("%s-bits/key", k))
					b.ReportMetric(100*s.EstimatedRate, fmt.Sprintf("%s-%%rate", k))
					b.ReportMetric(100*s.SecondProbeRate, fmt.Sprintf("%s-%%second", k))
				}
				for what, by := range times {
					per := float64(batch)
					if what == "build" {
						per = float64(n)
					}
					for _, k := range turnLayouts {
						b.ReportMetric(by[k].median()/per, fmt.Sprintf("%s-ns/%s", k, what))
					}
					b.ReportMetric(by[layout.Compact].median()/by[layout.Blocked].median(), "x/"+what)
				}
			})
		}
	}
}

// BenchmarkLayoutsLive fills a filter of each layout by inserts, with a commit every 10,000, and
// then deletes some of them. It reports medians per operation without the commits, and log bytes
// per operation.
//
//	go test ./mmapfilter -run '^$' -bench LayoutsLive
func BenchmarkLayoutsLive(b *testing.B) {
	round, slots := small(10_000, 100), small(8_000_000, 80_000)
	for _, s := range []shape{blocked12, newShape(layout.Compact, 14, 46)} {
		once(b, s.String(), func(b *testing.B) {
			f := createLines(b, filepath.Join(memoryDir(b), "f"), s, uint64(slots)/s.slots(), Options{LogBytes: 64 << 20})
			defer f.Close()
			w := writerOf(f)
			rng := rand.New(rand.NewPCG(1, 1))
			var hashes []uint64
			var bytes int64
			rounds := func(n int, operation func() error) (times series) {
				for bytes = 0; n > 0; n -= round {
					times.timed(b, func() error {
						for range round {
							if err := operation(); err != nil {
								return err
							}
						}
						return nil
					})
					bytes += w.Protocol().SegmentBytes()
					if err := f.Sync(); err != nil {
						b.Fatal(err)
					}
				}
				return times
			}
			report := func(what string, n int, times series) {
				b.ReportMetric(times.median()/float64(round), "ns/"+what)
				b.ReportMetric(float64(bytes)/float64(n), "logbytes/"+what)
			}
			insert := func() error {
				h := rng.Uint64()
				hashes = append(hashes, h)
				return f.InsertHash(h)
			}
			all, previous := int(w.Table().Lines())*layout.SlotsPerLine(w.Table().Kind(), w.Table().Params()), 0
			for _, percent := range []int{50, 80, 90, 95} { // soon after, Compact finds no room
				n := (all*percent/100 - previous) / round * round
				previous += n
				report(fmt.Sprintf("insert-to-%d%%", percent), n, rounds(n, insert))
			}
			rng.Shuffle(len(hashes), func(i, j int) { hashes[i], hashes[j] = hashes[j], hashes[i] })
			n := all / 50 / round * round
			report("delete", n, rounds(n, func() error {
				_, err := f.DeleteHash(hashes[0])
				hashes = hashes[1:]
				return err
			}))
		})
	}
}
