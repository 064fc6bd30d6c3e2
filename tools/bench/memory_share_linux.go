package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// lookupsBefore is how long readers look up keys before their memory is measured.
const lookupsBefore = 200 * time.Millisecond

// A processUse is the memory that one process uses.
type processUse struct {
	all, filter machine.MapUse
	pageTables  int64
}

// share sums up the memory of processes that all have the same filter in memory, and compares it with
// that of one file and as many idle processes.
func (m *memoryRun) share() (err error) {
	if m.processes < 1 {
		return fmt.Errorf("%d processes share nothing", m.processes)
	}
	path, err := m.filled()
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var readers, idle []*child
	defer func() { err = errors.Join(err, endAll(readers), endAll(idle)) }()
	for i := range 2 * m.processes {
		c, err := m.start()
		if err != nil {
			return err
		}
		if i%2 == 0 {
			idle = append(idle, c)
			continue
		}
		readers = append(readers, c)
		m.note("process %d opens the filter", len(readers))
		if err := c.ask("open", openArgs{path, mmapfilter.ResidencyPopulate}, nil); err != nil {
			return err
		}
		if err := c.ask("look", lookupsBefore, nil); err != nil {
			return err
		}
	}
	return m.printShare(path, info.Size(), readers, idle)
}

func use(pid int, path string) (u processUse, err error) {
	var errs [3]error
	u.all, errs[0] = mapped(pid, nil)
	u.filter, errs[1] = mapped(pid, func(name string) bool { return name == path })
	u.pageTables, errs[2] = status(pid, "VmPTE")
	return u, errors.Join(errs[:]...)
}

func (m *memoryRun) printShare(path string, fileBytes int64, readers, idle []*child) error {
	var sums [2]processUse
	for kind, processes := range [][]*child{readers, idle} {
		for _, c := range processes {
			u, err := use(c.pid(), path)
			if err != nil {
				return err
			}
			sum := &sums[kind]
			sum.all.Rss += u.all.Rss
			sum.all.Pss += u.all.Pss
			sum.filter.Rss += u.filter.Rss
			sum.pageTables += u.pageTables
		}
	}
	n, with, without := int64(len(readers)), sums[0], sums[1]
	if with.filter.Rss < n*fileBytes*99/100 {
		return fmt.Errorf("the readers have %s of the filter in memory, not %d times %s", figures.Mebibytes(with.filter.Rss), n, figures.Mebibytes(fileBytes))
	}
	expected := fileBytes + without.all.Pss
	ratio := float64(with.all.Pss) / float64(expected)
	tables := float64(with.all.Pss+with.pageTables) / float64(expected+without.pageTables)
	t := figures.NewTable(fmt.Sprintf("%d readers, %s file", n, figures.Mebibytes(fileBytes)), "")
	t.Row("sum of Rss: what they would use without sharing", figures.Mebibytes(with.all.Rss))
	t.Row("sum of Pss", figures.Mebibytes(with.all.Pss))
	t.Row(fmt.Sprintf("the file and the Pss of %d idle processes", n), figures.Mebibytes(expected))
	t.Row("**ratio**", fmt.Sprintf("**%.4f**", ratio))
	t.Row("ratio with page tables, which no Pss counts", fmt.Sprintf("%.4f", tables))
	m.print(t)
	return nil
}
