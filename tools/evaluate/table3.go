package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Table 3 of the paper: what the same memory holds, and how fast it is filled.
//
//	go -C tools/evaluate run . table3 --scale paper --dir /dev/shm
//
// The paper, 192 MB, Xeon E5620 at 2.4 GHz,
// items (million) / bits per item / rate / construction (million items a second):
// CF 127.78 / 12.60 / 0.19 % / 5.00, ss-CF 128.04 / 12.58 / 0.09 % / 3.13,
// BF 123.89 / 13.00 / 0.19 % / 3.91, blk-BF 123.89 / 13.00 / 0.43 % / 7.64,
// QF 120.80 / 13.33 / 0.18 % / 1.95, dl-CBF 103.82 / 15.51 / 0.76 % / 4.78.
// The authors' program on an i7-4790 (efficient/cuckoofilter, benchmarks/conext-table3.cc):
// CF 127.82 / 12.60 / 0.18 % / 5.86, ss-CF 127.90 / 12.59 / 0.09 % / 4.10.
const table3Title = "Table 3: space efficiency and construction speed"

// Targets for our Table 3.
const (
	wantedBits   = 12.65
	wantedRate   = 0.0020 // CF
	wantedSorted = 0.0010 // ss-CF
	wantedLoad   = 0.95
)

const oneAtATime = "one at a time"

// A table3Row is a structure, filled in one way.
type table3Row struct {
	name, how string
	keys      uint64
	load      float64 // of ours
	bits      float64 // an item
	rate      float64 // false positives
	one, all  float64 // million items a second; all: on all processors, if possible
	lost      uint64  // keys
	paper     string
}

func table3(c *config) (*report.Figure, error) {
	f := c.ran(fmt.Sprintf("tables of %s; ours also of %s, which is no power of two of buckets", mebibytes(c.extent.bytes), mebibytes(c.extent.oddSize)))
	var rows []table3Row
	for _, bytes := range []uint64{c.extent.bytes, c.extent.oddSize} {
		for _, s := range structures {
			if s.shape == nil {
				continue
			}
			r, err := c.builtRow(s, bytes)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
	}
	filled, err := c.filled()
	if err != nil {
		return nil, err
	}
	for i, m := range filled.members {
		r := table3Row{name: m.name, how: oneAtATime, one: perSecond(int(m.n), filled.took[i]), paper: m.paper}
		if m.mapped != nil {
			r.how = oneAtATime + ", logged"
		}
		if err := c.measureRow(&r, m); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	t := report.Table{Header: []string{"structure", "filled", "items (million)", "load %", "bits per item", "false positives %", "million items/s", "all processors", "keys lost", "paper: items / bits / rate / speed"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{r.name, r.how, fmt.Sprintf("%.2f", float64(r.keys)/1e6), dash(100*r.load, "%.2f"), fmt.Sprintf("%.2f", r.bits),
			fmt.Sprintf("%.3f", 100*r.rate), dash(r.one, "%.2f"), dash(r.all, "%.2f"), fmt.Sprint(r.lost), r.paper})
	}
	f.Tables = []report.Table{t}
	f.Plots = table3Plots(rows)
	cf, ss := rows[0], rows[1]
	f.Paper = "CF holds 127.78 million items in 12.60 bits each at 0.19 %, ss-CF 128.04 million in 12.58 bits at 0.09 %; a Bloom filter at 0.19 % takes 13.00 bits."
	f.Ours = fmt.Sprintf("CF holds %.2f million items in %.2f bits each at %.3f %%, ss-CF %.2f million in %.2f bits at %.3f %%; a Bloom filter at %.3f %% takes %.2f bits. %s",
		float64(cf.keys)/1e6, cf.bits, 100*cf.rate, float64(ss.keys)/1e6, ss.bits, 100*ss.rate, 100*rowOf(rows, "BF").rate, rowOf(rows, "BF").bits, verdict(cf, ss))
	f.Notes = []string{
		fmt.Sprintf("Bits per item are of the whole file, or of the table of a peer. The head of a file, 32 KiB, is %.3f bits of each item here.", 8*float64(layout.OffRegion)/float64(cf.keys)),
		"Every key that was inserted was looked up; one that is missing ends the program.",
		fmt.Sprintf("\"Build\" makes a sealed file with checksums from a sequence of keys, on one processor and on %d; the drawing of the keys is in its time.", runtime.GOMAXPROCS(0)),
		"\"Logged\": every insert goes through the log of the file, survives the end of the process, and was synced after 65,536 at most. The peers are in the heap and survive nothing.",
		"Files are in memory where the directory given for them is.",
		"The counting Bloom filter and our layout Compact are not in the paper's table.",
	}
	return f, nil
}

// builtRow builds a table of ours of about the given bytes, on one processor and on all.
func (c *config) builtRow(s structure, bytes uint64) (r table3Row, err error) {
	o, lines, keys, err := s.options(bytes)
	if err != nil {
		return r, err
	}
	r = table3Row{name: s.name, how: fmt.Sprintf("Build, m=%d", lines), paper: "-"}
	if bytes == c.extent.bytes {
		r.paper = s.paper
	}
	var m *mapped
	all := []int{1, 0}
	if bytes != c.extent.bytes {
		all = all[1:]
	}
	for _, workers := range all {
		if m != nil {
			if err := m.close(); err != nil {
				return r, err
			}
		}
		c.note("building %s, %s", s.name, mebibytes(bytes))
		o.Workers = workers
		begun := time.Now()
		if m, err = c.build("table3", o, keys); err != nil {
			return r, fmt.Errorf("%s: %w", s.name, err)
		}
		speed := perSecond(int(keys), time.Since(begun))
		if r.all = speed; workers == 1 {
			r.one = speed
		}
	}
	return r, errors.Join(c.measureRow(&r, &member{structure: s, filter: m, mapped: m, n: keys}), m.close())
}

// measureRow looks up all keys in a member, and absent ones.
func (c *config) measureRow(r *table3Row, m *member) (err error) {
	c.note("looking up in %s (%s)", m.name, r.how)
	r.keys = m.n
	r.bits = 8 * float64(m.filter.Bytes()) / float64(m.n)
	if m.mapped != nil {
		r.load = m.mapped.reader.Stats().Load
	}
	found, err := c.countRange(m.mostEfficient(), 0, m.n)
	if err != nil {
		return err
	}
	if r.lost = m.n - found; r.lost > 0 {
		return fmt.Errorf("%s (%s) lost %d of %d keys", m.name, r.how, r.lost, m.n)
	}
	r.rate, err = c.falsePositives(m.mostEfficient(), c.extent.absent)
	return err
}

// table3Plots plots each figure of the structures that were filled one key at a time beside the
// paper's.
func table3Plots(rows []table3Row) []report.Plot {
	columns := []struct {
		title, unit string
		ours        func(r table3Row) float64
	}{
		{"Space", "bits per item", func(r table3Row) float64 { return r.bits }},
		{"False positives", "% of absent keys", func(r table3Row) float64 { return 100 * r.rate }},
		{"Construction, one key at a time", "million items/s", func(r table3Row) float64 { return r.one }},
	}
	var plots []report.Plot
	for column, c := range columns {
		p := report.Plot{Title: c.title, X: report.Axis{Label: "structure"}, Y: report.Axis{Label: c.unit}}
		measured := report.Series{Name: "measured", Style: report.Bars}
		paper := report.Series{Name: "paper", Style: report.Bars}
		for _, r := range rows {
			if !strings.HasPrefix(r.how, oneAtATime) || r.name == "CBF" { // its bits, four times as many, would dwarf the others
				continue
			}
			at := float64(len(p.Names))
			p.Names = append(p.Names, r.name)
			measured.Points = append(measured.Points, report.Point{X: at, Y: c.ours(r)})
			if said := parsePaper(r.paper); said.items > 0 {
				paper.Points = append(paper.Points, report.Point{X: at, Y: [...]float64{said.bits, said.rate, said.speed}[column]})
			}
		}
		p.Series = []report.Series{measured, paper}
		plots = append(plots, p)
	}
	return plots
}

// paperRow holds the paper's Table 3 for one structure.
type paperRow struct{ items, bits, rate, speed float64 }

// parsePaper parses "127.78 / 12.60 / 0.19 % / 5.00". For "-" all numbers are 0.
func parsePaper(text string) (p paperRow) {
	if n, _ := fmt.Sscanf(text, "%f / %f / %f %% / %f", &p.items, &p.bits, &p.rate, &p.speed); n < 4 {
		return paperRow{}
	}
	return p
}

// The columns of the table.
const (
	columnItems = 2 + iota
	columnLoad
	columnBits
	columnRate
	columnOne
	columnAll
	columnLost
	columnPaper
)

// singly returns the rows of the table that were filled one key at a time.
func singly(f *report.Figure) (rows [][]string) {
	for _, r := range f.Tables[0].Rows {
		if len(r) > columnPaper && strings.HasPrefix(r[1], oneAtATime) {
			rows = append(rows, r)
		}
	}
	return rows
}

// cell returns the number in a cell, or 0 for a dash.
func cell(text string) float64 {
	x, _ := strconv.ParseFloat(text, 64)
	return x
}

func table3Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 0, 1); err != nil {
		return nil, err
	}
	rows := singly(f)
	of := func(name string, column int) string {
		for _, r := range rows {
			if r[0] == name {
				return r[column]
			}
		}
		return "-"
	}
	said := func(name string) paperRow { return parsePaper(of(name, columnPaper)) }
	cf, ss := said("CF"), said("ss-CF")
	bars := func(title, unit, format, said string, column int, paper func(paperRow) float64) *picture.Bars {
		p := &picture.Bars{Title: title, Unit: unit, Format: format, Paper: said}
		p.Rows = rowsOf(rows, func(r []string) float64 { return cell(r[column]) }, func(r []string) float64 { return paper(parsePaper(r[columnPaper])) })
		if column == columnBits { // four times as many bits would dwarf the others
			p.Rows = slices.DeleteFunc(p.Rows, func(r picture.Row) bool { return r.Name == lookOf("CBF").name })
		}
		return p
	}
	const mark = "A mark across a row is the paper's value. "
	space, rate, speed := "How much space does a key take?", "How often is an absent key a false positive?", "How fast is a filter filled, one key at a time?"
	return []report.View{
		view(space, fmt.Sprintf("A key takes %s bits in packed and %s in semisorted, where the paper has %.2f and %.2f; in a Bloom filter it takes %s.",
			of("CF", columnBits), of("ss-CF", columnBits), cf.bits, ss.bits, of("BF", columnBits)),
			mark+"The paper's Table 3. A counting Bloom filter, which takes four times as much as a Bloom filter, is left out.",
			bars(space, "bits per key in a full filter", "%.2f", "%.2f", columnBits, func(p paperRow) float64 { return p.bits })),
		view(rate, fmt.Sprintf("The false-positive rate is %s %% in packed and %s %% in semisorted, where the paper has %.2f %% and %.2f %%.",
			of("CF", columnRate), of("ss-CF", columnRate), cf.rate, ss.rate),
			mark+"The paper's Table 3, in the space of the picture above.",
			bars(rate, "false-positive rate, % of absent keys", "%.3f", "%.2f", columnRate, func(p paperRow) float64 { return p.rate })),
		view(speed, fmt.Sprintf("Logged inserts into packed go in at %s million a second and into semisorted at %s, where the paper, in the memory of another machine, has %.2f and %.2f.",
			of("CF", columnOne), of("ss-CF", columnOne), cf.speed, ss.speed),
			mark+"It is of one thread of a Xeon E5620 at 2.4 GHz. Inserts into ours go through the log and survive a crash of the process; those of the others survive nothing.",
			bars(speed, "million inserts a second, from empty to full", "%.2f", "%.2f", columnOne, func(p paperRow) float64 { return p.speed })),
	}, nil
}

func rowOf(rows []table3Row, name string) (r table3Row) {
	for _, r = range rows {
		if r.name == name {
			break
		}
	}
	return r
}

// verdict says whether the targets are met. A small file misses them, since its head is a large
// part of it.
func verdict(cf, ss table3Row) string {
	wanted := fmt.Sprintf("Wanted were a load of %.0f %%, at most %.2f bits, at most %.2f and %.2f %%, and no lost key", 100*wantedLoad, wantedBits, 100*wantedRate, 100*wantedSorted)
	var missed []string
	for _, r := range []struct {
		table3Row
		most float64
	}{{cf, wantedRate}, {ss, wantedSorted}} {
		if r.load < wantedLoad {
			missed = append(missed, r.name+" load")
		}
		if r.bits > wantedBits {
			missed = append(missed, r.name+" bits")
		}
		if r.rate > r.most {
			missed = append(missed, r.name+" rate")
		}
	}
	if missed == nil {
		return wanted + ": reached."
	}
	return fmt.Sprintf("%s: missed %q.", wanted, missed)
}
