package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// lookupsBefore is how long readers look up keys before their memory is measured.
const lookupsBefore = 200 * time.Millisecond

// share sums up the memory of processes that all have the same filter in memory, and compares it
// with the memory of one file and the same number of idle processes.
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
		if err := c.ask("Open", OpenArgs{path, mmapfilter.ResidencyPopulate}, nil); err != nil {
			return err
		}
		if err := c.ask("Look", lookupsBefore, nil); err != nil {
			return err
		}
	}
	return m.printShare(path, info.Size(), readers, idle)
}

// sumOf sums up the memory of processes, as mapped does for one.
func sumOf(children []*child, match func(name string) bool) (sum mapUse, err error) {
	for _, c := range children {
		u, err := mapped(c.pid(), match)
		if err != nil {
			return sum, err
		}
		sum.rss += u.rss
		sum.pss += u.pss
	}
	return sum, nil
}

func (m *memoryRun) printShare(path string, fileBytes int64, readers, idle []*child) error {
	with, err1 := sumOf(readers, nil)
	without, err2 := sumOf(idle, nil)
	filter, err3 := sumOf(readers, func(name string) bool { return name == path })
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	n := int64(len(readers))
	if filter.rss < n*fileBytes*99/100 {
		return fmt.Errorf("the readers have %s of the filter in memory, not %d times %s", Mebibytes(filter.rss), n, Mebibytes(fileBytes))
	}
	expected := fileBytes + without.pss
	ratio := float64(with.pss) / float64(expected)
	t := NewTable(fmt.Sprintf("%d readers, %s file", n, Mebibytes(fileBytes)), "")
	t.Row("sum of Rss: what they would use without sharing", Mebibytes(with.rss))
	t.Row("sum of Pss", Mebibytes(with.pss))
	t.Row(fmt.Sprintf("the file and the Pss of %d idle processes", n), Mebibytes(expected))
	t.Row("**ratio**", fmt.Sprintf("**%.4f**", ratio))
	m.print(t)
	return nil
}
