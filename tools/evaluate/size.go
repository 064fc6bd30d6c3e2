package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/peers"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// A figure of our own: lookups a second against the size of the filter, and what a lookup reads,
// in cache lines, and in pages when nothing is in memory.
//
//	go -C tools/evaluate run . size --scale paper --dir /dev/shm
//
// The paper has no such figure. It says that a cuckoo lookup is two cache misses (Table 2).
const sizeTitle = "Our own figure: lookups and the size of the filter"

// Tables too large to fill in a run: ours have keys in spareLoad of their slots; Bloom filters
// have random bits and spareKeys keys.
const (
	spareLoad = 0.12
	spareKeys = 1 << 22
)

// sizeStructures are measured at each size.
var sizeStructures = []structure{structureOf("Compact"), structureOf("CF"), structureOf("ss-CF"), structureOf("BF"), structureOf("blk-BF")}

func structureOf(name string) structure {
	for _, s := range structures {
		if s.name == name {
			return s
		}
	}
	panic("evaluate: no structure is called " + name)
}

func size(c *config) (*report.Figure, error) {
	sizes := c.extent.sizes
	f := c.ran(fmt.Sprintf("tables of %s to %s, full, one thread, medians of %d rounds of %d lookups",
		mebibytes(sizes[0]), mebibytes(sizes[len(sizes)-1]), c.extent.rounds, c.extent.lookups))
	panels := []struct {
		title string
		share float64
		of    map[string]*report.Series
	}{
		{"absent keys", 0, map[string]*report.Series{}},
		{"keys that are there", 1, map[string]*report.Series{}},
	}
	var order []string
	second := 0.0 // share of second lines in a full Compact table
	for _, bytes := range sizes {
		for _, group := range c.sizeGroups(bytes) {
			members, err := c.sizeMembers(group, bytes)
			for i := 0; err == nil && i < len(panels); i++ {
				p := panels[i]
				all := lookersOf(members)
				var rates []float64
				if rates, err = c.lookupRates(all, p.share); err != nil {
					break
				}
				for j, l := range all {
					if p.of[l.name] == nil {
						p.of[l.name] = &report.Series{Name: l.name}
						if i == 0 {
							order = append(order, l.name)
						}
					}
					p.of[l.name].Points = append(p.of[l.name].Points, report.Point{X: float64(bytes) / (1 << 20), Y: rates[j]})
				}
			}
			for _, m := range members {
				if err == nil && m.name == "Compact" && bytes < c.extent.spare {
					second = m.mapped.reader.Stats().SecondProbeRate
				}
				err = errors.Join(err, m.close())
			}
			if err != nil {
				return nil, err
			}
			debug.FreeOSMemory() // the next tables may need all memory
		}
	}
	for _, p := range panels {
		plot := report.Plot{
			Title: p.title,
			X:     report.Axis{Label: "size of the table (MiB)", Log: true},
			Y:     report.Axis{Label: lookupsLabel},
		}
		for _, name := range order {
			plot.Series = append(plot.Series, *p.of[name])
		}
		f.Plots = append(f.Plots, plot)
		f.Tables = append(f.Tables, aboutTable(plot.Series, p.title+": million lookups a second by size", "%.0f MiB"))
	}
	reads, brief, err := c.readsTable(second)
	if err != nil {
		return nil, err
	}
	f.Tables = append(f.Tables, reads)
	absent := f.Plots[0].Series
	f.Paper = "There is no such figure. By Table 2 a lookup of a cuckoo filter is 2 cache misses, that of an absent key in a Bloom filter 2 on average."
	f.Ours = fmt.Sprintf("Million lookups of absent keys a second in the smallest and the largest table: %s. Cache lines of such a lookup: %s.",
		ends(absent, "Compact", "Compact, batches", "CF", "CF, batches", "ss-CF", "ss-CF, batches", "BF", "blk-BF"), brief)
	f.Notes = []string{
		fmt.Sprintf("From %s on, one table is measured after the other, and none is filled with its keys, since that takes too long. Tables of ours have keys in %.0f %% of their slots: both buckets of CF and ss-CF are read whatever is in them, but a full Compact table reads some second lines more. Bloom filters have half their bits set at random, as full ones have, and then %d keys.", mebibytes(c.extent.spare), 100*spareLoad, spareKeys),
		"Files are in memory where the directory given for them is; those that are read cold are on the disk of the directory of the output.",
		"All structures of a size are asked in turn, round after round; keys are drawn before the clock runs; medians. Lookups of ours are ContainsHash of the XXH3 of the 8 bytes of a key, or ContainsHashes of 1,024 keys, in a sealed file; hashing is in all times.",
	}
	return f, nil
}

// sizeGroups returns the structures of a size, in groups that are in memory together.
func (c *config) sizeGroups(bytes uint64) (groups [][]structure) {
	if bytes < c.extent.spare {
		return [][]structure{sizeStructures}
	}
	for _, s := range sizeStructures {
		groups = append(groups, []structure{s})
	}
	return groups
}

// sizeMembers makes structures of a size: it builds ours, and fills peers.
func (c *config) sizeMembers(group []structure, bytes uint64) (members []*member, err error) {
	for _, s := range group {
		c.note("%s, %s", mebibytes(bytes), s.name)
		if s.shape == nil {
			m, err := c.empty(s, bytes)
			if err != nil {
				return members, err
			}
			members = append(members, m)
			if bytes >= c.extent.spare {
				m.filter.(peers.Saturable).Saturate(rand.New(rand.NewPCG(c.seed, bytes)))
				m.full = min(m.full, spareKeys)
			}
			if err := c.fill(m); err != nil {
				return members, err
			}
			continue
		}
		o, lines, keys, err := s.options(bytes)
		if err != nil {
			return members, err
		}
		if bytes >= c.extent.spare {
			keys = uint64(spareLoad * float64(lines*s.shape.slots()))
		}
		built, err := c.build("size-"+s.name, o, keys)
		if err != nil {
			return members, err
		}
		members = append(members, &member{structure: s, filter: built, mapped: built, n: keys})
	}
	return members, nil
}

// readsTable shows what a lookup of an absent key reads.
func (c *config) readsTable(second float64) (t report.Table, brief string, err error) {
	t = report.Table{
		Caption: fmt.Sprintf("What a lookup of an absent key reads. Pages: of a file of %s, of which nothing is in memory, that %d lookups bring there, for each; the file is dropped from memory again after %d of them, which share some pages", mebibytes(c.extent.cold), c.extent.misses, coldBlock),
		Header:  []string{"", "cache lines of the table", "how known", "pages, computed", "pages, measured"},
	}
	for _, s := range sizeStructures {
		row := []string{s.name, "", "computed", "", "-"}
		var lines float64
		pages := 0.0 // where it differs from lines: a bucket in two lines is nearly always in one page
		switch {
		case s.name == "Compact":
			lines = 1 + second
			row[2] = "measured: 1 and the share of lines that send a lookup on (Stats)"
		case s.shape != nil:
			lines, pages = 2*bucketLines(*s.shape), 2
			row[2] = "computed from where buckets begin; the stash, empty, is one line more that all lookups share"
		case s.name == "BF":
			lines = bloomProbes()
			row[2] = "computed: half the bits are set, it ends at the first that is not"
		default:
			lines = 1
		}
		row[1] = fmt.Sprintf("%.3f", lines)
		row[3] = fmt.Sprintf("%.3f", c.coldExpected(cmp.Or(pages, lines)))
		if s.shape != nil {
			c.note("reading %s cold", s.name)
			read, why, err := c.coldPages(s)
			if err != nil {
				return t, "", err
			}
			if row[4] = fmt.Sprintf("%.3f", read); why != "" {
				row[4] = "not measured: " + why
			}
		}
		t.Rows = append(t.Rows, row)
		if brief != "" {
			brief += ", "
		}
		brief += fmt.Sprintf("%s %.2f", s.name, lines)
	}
	return t, brief, nil
}

// bloomProbes returns how many bits a lookup of an absent key reads in a Bloom filter with 13
// bits a key and 9 hash functions. It stops at the first 0.
func bloomProbes() (n float64) {
	const hashes, bits = 9, 13
	set := -math.Expm1(-float64(hashes) / bits)
	for i := range hashes {
		n += math.Pow(set, float64(i))
	}
	return n
}

// paperLines holds the memory references of a lookup of an absent key, from Table 2 of the
// paper.
var paperLines = map[string]float64{"CF": 2, "ss-CF": 2, "BF": 2}

func sizeViews(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 1, 3); err != nil {
		return nil, err
	}
	p := f.Plots[0]
	const lines = "How many cache lines does a lookup read?"
	bars := &picture.Bars{Title: lines, Unit: "cache lines of the table, a lookup of an absent key", Format: "%.2f", Paper: "%.0f"}
	reads := f.Tables[2].Rows
	bars.Rows = rowsOf(reads, func(r []string) float64 { return cell(r[1]) }, func(r []string) float64 { return paperLines[r[0]] })
	ours := 0.0
	for _, r := range bars.Rows {
		if r.Name == lookOf("Compact").name {
			ours = r.Value
		}
	}
	x := picture.Axis{Label: "size of the table", Log: true}
	sizes := p.SeriesOf("Compact").Points
	for _, at := range sizes {
		label := fmt.Sprintf("%.3g MiB", at.X)
		if at.X >= 1024 {
			label = fmt.Sprintf("%.3g GiB", at.X/1024)
		}
		if len(x.Ticks) > 0 && len(x.Ticks)%2 == 1 {
			label = "" // only half of the labels fit
		}
		x.Ticks = append(x.Ticks, picture.Tick{At: at.X, Label: label})
	}
	small, large := endsOf(p, "Compact")
	smallBatch, largeBatch := endsOf(p, "Compact"+batches)
	return []report.View{
		lookupsView("How much slower is a lookup in a large filter?",
			fmt.Sprintf("One key at a time, compact answers %s million lookups of absent keys a second in the smallest table and %s in the largest.", oneDigit(small), oneDigit(large)),
			"Our own figure; the paper has none like it. Absent keys, one key at a time.",
			x, p, ""),
		lookupsView("And in batches?",
			fmt.Sprintf("In batches of 1,024 keys it is %s million in the smallest table and %s in the largest.", oneDigit(smallBatch), oneDigit(largeBatch)),
			"Our own figure. Absent keys, 1,024 at a time; grey is compact one key at a time.",
			x, p, batches, picture.Line{Name: "compact, one key", Points: sizes}),
		view(lines, fmt.Sprintf("A lookup of an absent key in compact reads %.2f cache lines, where the paper's cuckoo filter reads 2 buckets.", ours),
			"A mark across a row is the paper's Table 2, which counts buckets; a bucket of packed or semisorted may lie in two cache lines.",
			bars),
	}, nil
}
