package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// A coldCase is a filter and the lookups in it.
type coldCase struct {
	path    string
	stats   mmapfilter.Stats
	other   float64 // share of the lookups that read a second line in another page
	lookups int
	block   int
}

// A coldReader looks up hashes in a file that is not in memory.
type coldReader struct {
	name string
	open func(path string) (look func(h uint64), end func() error, err error)
}

var coldReaders = []coldReader{
	{"**lookup**", openLookups},
	{"one line (control)", openLines(1)},
	{"two buckets anywhere", openLines(2)},
}

// cold counts the pages that lookups of absent keys read from the disk when no part of the file is in
// memory. It compares them with a filter that has two buckets anywhere, by reading the home lines of the
// same keys, and for each key another line drawn from its hash, in a mapping of the same file. (The
// alternate line may be near, and in the same page.)
//
// A fault that is interrupted by a signal, such as one of the Go scheduler, starts again once the page
// is there, and then counts as minor. The count of pages read is complete.
func (m *memoryRun) cold() error {
	if m.lookups < 1 || m.block < 1 {
		return errors.New("there is nothing to look up")
	}
	if ok, err := m.needDisk(); !ok {
		return err
	}
	path, err := m.filled()
	if err != nil {
		return err
	}
	f, err := mmapfilter.OpenReadOnly(path, nil)
	if err != nil {
		return err
	}
	c := &coldCase{path: path, stats: f.Stats(), lookups: m.lookups, block: m.block}
	if err := f.Close(); err != nil {
		return err
	}
	if c.other, err = otherPages(path, m.lookups); err != nil {
		return err
	}
	m.printf("\n%s: Q=%d, r=%d, load %.2f %%, %s file; of absent keys, %.2f %% read a second line, and %.2f %% one in another page. %s lookups in blocks of %s, before each of which the file is dropped from the page cache.\n",
		byDefault.name(), c.stats.Quotients, c.stats.RemainderBits, 100*float64(c.stats.Len)/float64(c.stats.Slots), figures.Mebibytes(c.stats.FileBytes), 100*c.stats.SecondProbeRate, 100*c.other, figures.Grouped(int64(c.lookups)), figures.Grouped(int64(c.block)))
	t := figures.NewTable("", "major faults a lookup", "minor", "pages read", "pages read by the disk, for all", "expected", "time a lookup")
	for _, r := range coldReaders {
		m.note("%s", r.name)
		if err := m.coldRow(t, c, r); err != nil {
			return err
		}
	}
	m.print(t)
	return nil
}

func (s *session) coldRow(t *figures.Table, c *coldCase, r coldReader) error {
	var sum pageReads
	var took time.Duration
	disk, _ := deviceBytes(c.path)
	rng := coldHashes()
	for left := c.lookups; left > 0; left -= c.block {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if err := c.drop(); err != nil {
			return err
		}
		n, d, err := c.run(r, rng, min(left, c.block))
		if err != nil {
			return err
		}
		sum.minor, sum.major, sum.bytes = sum.minor+n.minor, sum.major+n.major, sum.bytes+n.bytes
		took += d
	}
	per := func(n int64) string { return fmt.Sprintf("%.4f", float64(n)/float64(c.lookups)) }
	read := "unknown"
	if now, _ := deviceBytes(c.path); disk >= 0 {
		read = per((now - disk) / layout.PageBytes)
	}
	lines := map[string]float64{coldReaders[0].name: 1 + c.other, coldReaders[1].name: 1, coldReaders[2].name: 2}[r.name]
	t.Row(r.name, "**"+per(sum.major)+"**", per(sum.minor), per(sum.bytes/layout.PageBytes), read, fmt.Sprintf("%.4f", c.expected(lines)), figures.Brief(took/time.Duration(c.lookups)))
	return nil
}

// coldHashes returns the hashes to look up, the same for all readers.
func coldHashes() *rand.PCG { return rand.NewPCG(1, 2) }

// otherPages returns the share of the lookups that read a second line in another page than the
// first.
func otherPages(path string, lookups int) (float64, error) {
	m, g, err := mapFilter(path)
	if err != nil {
		return 0, err
	}
	table, rng, n := layout.NewTable(g), coldHashes(), 0
	region := recovery.Words(m.Data)[layout.WordRegion:]
	var l layout.Line
	for range lookups {
		it := table.Split(rng.Uint64())
		if layout.Load(table, region, it.Line, &l); layout.Copies(table, l, it) == 0 && layout.Overflowed(table, &l, it) && pageOf(table.Alternate(it)) != pageOf(it) {
			n++
		}
	}
	return float64(n) / float64(lookups), m.Unmap()
}

// pageOf returns the page of the line of an item.
func pageOf(it layout.Item) uint64 { return it.Line * layout.LineBytes / layout.PageBytes }

// mapFilter maps a filter file.
func mapFilter(path string) (*osfile.Mapping, layout.Geometry, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return nil, layout.Geometry{}, err
	}
	defer f.Close()
	m, err := osfile.Map(f, head.Size, false)
	return m, head.Geometry, err
}

// expected returns how many pages a lookup reads that touches this many lines. A page is read
// only once in a block of lookups.
func (c *coldCase) expected(lines float64) float64 {
	return distinct(float64(c.stats.FileBytes/layout.PageBytes), lines*float64(c.block)) / float64(c.block)
}

// drop drops the file from the page cache and checks that it is gone.
func (c *coldCase) drop() error {
	if err := machine.DropCache(c.path); err != nil {
		return err
	}
	m, _, err := mapFilter(c.path)
	if err != nil {
		return err
	}
	defer m.Unmap()
	resident, err := m.Resident()
	if err == nil && resident > coldBytes {
		err = fmt.Errorf("%s of the file stay in memory; files that are measured cold must be on a disk, see -dir", figures.Mebibytes(resident))
	}
	return err
}

// coldBytes is how much of a cold file may be in memory: opening it reads the superblocks, and
// the kernel reads ahead.
const coldBytes = 1 << 20

// run looks up n hashes. It does not count what opening and a first lookup read.
func (c *coldCase) run(r coldReader, rng *rand.PCG, n int) (pageReads, time.Duration, error) {
	look, end, err := r.open(c.path)
	if err != nil {
		return pageReads{}, 0, err
	}
	look(0)
	before, err := readsSoFar()
	if err != nil {
		return pageReads{}, 0, errors.Join(err, end())
	}
	begun := time.Now()
	for range n {
		look(rng.Uint64())
	}
	took := time.Since(begun)
	after, err := readsSoFar()
	return after.since(before), took, errors.Join(err, end())
}

func openLookups(path string) (func(uint64), func() error, error) {
	f, err := mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyRandom})
	if err != nil {
		return nil, nil, err
	}
	return func(h uint64) { f.ContainsHash(h) }, f.Close, nil
}

// openLines returns a reader of the home line of a hash. With lines = 2 it always reads a second
// line, too, at a random distance from the first.
func openLines(lines int) func(string) (func(uint64), func() error, error) {
	return func(path string) (func(uint64), func() error, error) {
		m, g, err := mapFilter(path)
		if err != nil {
			return nil, nil, err
		}
		if err := m.AdviseRandom(); err != nil {
			return nil, nil, errors.Join(err, m.Unmap())
		}
		table := layout.NewTable(g)
		words := recovery.Words(m.Data)
		touch := func(it layout.Item) { atomic.LoadUint64(&words[layout.WordRegion+it.Line*layout.LineBytes/8]) }
		look := func(h uint64) {
			touch(table.Split(h))
			if lines == 2 {
				touch(table.Split(h * 0x9E3779B97F4A7C15)) // any odd number with bits everywhere
			}
		}
		return look, m.Unmap, nil
	}
}

// distinct returns how many different pages this many touches of random pages meet on average.
func distinct(pages, touches float64) float64 {
	return pages * -math.Expm1(touches*math.Log1p(-1/pages))
}
