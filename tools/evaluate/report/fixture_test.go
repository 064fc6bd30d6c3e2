package report

import (
	"fmt"
	"math"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

var fixtureMachine = machine.Machine{
	Processor:   "A Processor with a Name as Long as they have them, 12th Generation @ 2.60GHz",
	Cores:       2,
	MemoryBytes: 8 << 30,
	System:      "Linux 6.1.0-amd64",
	Go:          "go1.24.0",
	Date:        time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
	Commit:      "0123456789ab",
}

// fixtures returns figures of each kind: several panels, logarithmic axes, formulas, marks,
// bars, a wide table, no table; with names as long as they get.
func fixtures() []*Figure {
	lines := &Figure{
		Name:    "fig2",
		Title:   "Figure 2: the load factor that fingerprints of f bits reach, in tables of different sizes",
		Run:     "packed, b=4, f=2 to 20, m=2^15, 2^20 and 2^25 buckets, ten tables each, seed 1; a run whose description is long enough for a third line",
		Command: "go -C tools/evaluate run . fig2 --scale paper --seed 18446744073709551615 --dir /a/directory/with/a/name/that/is/longer/than/a/telephone/is/wide/and/has/no/space",
		Paper:   "Short fingerprints are enough: with b = 4, six bits reach a load of 95 % in a table of 2^25 buckets; f must exceed a bound that grows with log m & shrinks with b.",
		Ours:    "Six bits reach 95 % in 2^25 buckets, and <7> in all.",
		Notes:   []string{"Each point is the mean of ten tables.", "Times are not in this figure."},
	}
	for _, bucket := range []int{2, 4, 8} {
		p := Plot{
			Title: fmt.Sprintf("b = %d", bucket),
			X:     Axis{Label: "f, bits"},
			Y:     Axis{Label: "load factor when the first insert fails", Min: 0, Max: 1},
		}
		for i, m := range []int{15, 20, 25} {
			s := Series{Name: fmt.Sprintf("m = 2^%d", m)}
			for f := 2.0; f <= 20; f += 2 {
				s.Points = append(s.Points, Point{X: f, Y: 0.98 - math.Exp(-f/(2+float64(i)))})
			}
			p.Series = append(p.Series, s)
		}
		lines.Plots = append(lines.Plots, p)
	}

	rates := &Figure{
		Name:    "fig4",
		Title:   "Figure 4: false positive rate and space",
		Run:     "all layouts, f=4 to 24, 10,000,000 keys, 10,000,000 absent ones, seed 1",
		Command: "go -C tools/evaluate run . fig4 --scale small --seed 1",
		Paper:   "Below a rate of 3 % a cuckoo filter takes fewer bits for a key than a Bloom filter.",
		Ours:    "Below 2.9 %.",
		Plots: []Plot{{
			Title: "Figure 4: false positive rate and space",
			X:     Axis{Label: "bits per key"},
			Y:     Axis{Label: "false positive rate", Log: true},
		}},
	}
	for i, name := range []string{"lower bound: log2(1/ε)", "Bloom filter: 1.44 log2(1/ε)", "cuckoo filter: (log2(1/ε) + 3) / α", "semi-sorted cuckoo filter: (log2(1/ε) + 2) / α"} {
		s := Series{Name: name, Style: Formula}
		for bits := 5.0; bits <= 25; bits += 5 {
			s.Points = append(s.Points, Point{X: bits, Y: math.Exp2(-bits * (1 - 0.1*float64(i)))})
		}
		rates.Plots[0].Series = append(rates.Plots[0].Series, s)
	}
	measured := Series{Name: "packed, b=4, measured", Style: Measured}
	alone := Series{Name: "compact, for rates of 5 % to 0.01 %, the layout that is chosen unless another one is asked for", Style: Marks}
	for bits := 6.0; bits <= 24; bits += 3 {
		measured.Points = append(measured.Points, Point{X: bits, Y: math.Exp2(-bits * 0.75)})
		alone.Points = append(alone.Points, Point{X: bits, Y: math.Exp2(-bits * 0.65)})
	}
	rates.Plots[0].Series = append(rates.Plots[0].Series, measured, alone)

	table := &Figure{
		Name:    "table3",
		Title:   "Table 3: space and speed of construction",
		Run:     "192 MiB each, filled; seed 1",
		Command: "go -C tools/evaluate run . table3 --scale small --seed 1",
		Paper:   "The semi-sorted cuckoo filter is the smallest, the blocked Bloom filter the fastest.",
		Ours:    "The same.",
		Tables: []Table{{
			Caption: "Filters of 192 MiB",
			Header:  []string{"filter", "keys, million", "bits per key", "rate, %", "million keys per second", "rate in the paper, %", "bits in the paper", "million keys per second in the paper"},
			Rows: [][]string{
				{"cuckoo, packed", "127.78", "12.60", "0.19", "5.1", "0.19", "12.60", "5.00"},
				{"cuckoo, semi-sorted", "128.04", "12.58", "0.09", "3.2", "0.09", "12.58", "3.13"},
				{"standard Bloom", "123.89", "13.00", "0.19", "4.0", "0.19", "13.00", "3.91"},
				{"d-left counting Bloom", "–", "–", "–", "–", "1.50", "–", "4.78"},
			},
		}},
		Plots: []Plot{{
			Title: "Construction",
			Y:     Axis{Label: "million keys per second"},
			Names: []string{"cuckoo, packed", "cuckoo, semi-sorted", "standard Bloom", "d-left counting Bloom"},
			Series: []Series{
				{Name: "here", Style: Bars, Points: []Point{{X: 0, Y: 5.1}, {X: 1, Y: 3.2}, {X: 2, Y: 4}}},
				{Name: "the paper", Style: Bars, Points: []Point{{X: 0, Y: 5}, {X: 1, Y: 3.13}, {X: 2, Y: 3.91}, {X: 3, Y: 4.78}}},
			},
		}},
	}

	size := &Figure{
		Name:    "size",
		Title:   "Our own: what the size of a filter does to it",
		Run:     "compact, seed 1",
		Command: "go -C tools/evaluate run . size --scale small --seed 1",
		Paper:   "There is no such figure in the paper.",
		Ours:    "A lookup takes ten times as long.",
		Seconds: 61.2,
		Plots: []Plot{{
			Title:  "Our own: what the size of a filter does to it",
			X:      Axis{Label: "size, MiB", Log: true},
			Y:      Axis{Label: "nanoseconds a lookup", Log: true},
			Series: []Series{{Name: "lookups", Points: []Point{{X: 1, Y: 9}, {X: 4, Y: 10}, {X: 16, Y: 14}, {X: 64, Y: 33}, {X: 256, Y: 50}, {X: 1024, Y: 70}}}},
		}},
	}
	return []*Figure{size, lines, table, rates}
}

// fixtureViewers show all series of a plot of lines, the first four in colours; and, for each
// row of bars, the first series, with the second as the paper's.
func fixtureViewers() map[string]Viewer {
	view := func(f *Figure) (views []View, err error) {
		for _, p := range f.Plots {
			v := View{Question: f.Title + ", " + p.Title + "?", Answer: f.Ours, Caption: "Lines <all> of them."}
			if p.Names != nil {
				bars := &picture.Bars{Title: v.Question, Unit: p.Y.Label, Format: "%.1f", Paper: "%.1f"}
				for i, name := range p.Names {
					bars.Rows = append(bars.Rows, picture.Row{Name: name, Tone: picture.Tone(i % 5)})
				}
				for _, at := range p.Series[0].Points {
					bars.Rows[int(at.X)].Value = at.Y
				}
				for _, at := range p.Series[1].Points {
					bars.Rows[int(at.X)].Paper = at.Y
				}
				v.Picture = bars
			} else {
				lines := &picture.Lines{Title: v.Question, X: p.X, Y: p.Y}
				for i, s := range p.Series {
					l := picture.Line{Name: s.Name, Points: s.Points}
					if s.Style == Formula {
						l.Kind = picture.Dashed
					} else {
						l.Tone = picture.Tone(i%4 + 1)
					}
					lines.Series = append(lines.Series, l)
				}
				v.Picture = lines
			}
			views = append(views, v)
		}
		return views, nil
	}
	viewers := map[string]Viewer{}
	for _, f := range fixtures() {
		viewers[f.Name] = view
	}
	return viewers
}
