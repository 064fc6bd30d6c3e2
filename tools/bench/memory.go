package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A memoryRun measures how filters use the memory of a machine.
type memoryRun struct {
	*session
	parts     []string
	processes int
	limit     Size
	steady    time.Duration
	file      string // the path of the filter
}

// newMemory returns the command that measures how filters use the memory of a machine. Its figures
// come from the kernel, so only Linux has it.
func newMemory(s *session) command {
	m := &memoryRun{session: s, limit: 256 << 20}
	s.rounds = 3
	listFlag(s, &m.parts, "parts", strings.Join(memoryParts, ","), "share: one copy for all processes; residency: a file larger than memory", parsePart)
	s.flags.IntVar(&m.processes, "processes", 8, "share: how many processes have the filter open, and how many have no filter")
	s.flags.Var(&m.limit, "limit", "residency: the smaller memory limit, in which the file does not fit; it includes the page cache")
	s.flags.DurationVar(&m.steady, "time", 5*time.Second, "residency: how long lookups are measured at full speed, after they have run for the same time")
	return command{map[string]string{"size": "32MiB", "rounds": "1", "processes": "3", "limit": "16MiB", "time": "20ms"}, m.run}
}

var memoryParts = []string{"share", "residency"}

func parsePart(word string) (string, error) {
	if !slices.Contains(memoryParts, word) {
		return "", fmt.Errorf("%q is not one of %v", word, memoryParts)
	}
	return word, nil
}

func (m *memoryRun) run() error {
	if slices.Contains(m.parts, "share") {
		if err := m.share(); err != nil {
			return err
		}
	}
	if slices.Contains(m.parts, "residency") {
		return m.residency()
	}
	return nil
}

// filled builds the filter that is measured, once, and returns its path.
func (m *memoryRun) filled() (string, error) {
	if m.file != "" {
		return m.file, nil
	}
	n := byDefault.keys(int64(m.size))
	path, f, err := m.build("memory.mmf", byDefault.options(n), n)
	if err != nil {
		return "", err
	}
	m.file = path
	return path, f.Close()
}

type OpenArgs struct {
	File      string
	Residency mmapfilter.Residency
}

// Open opens a filter for lookups.
func (w *worker) Open(a OpenArgs, _ *struct{}) (err error) {
	w.filter, err = mmapfilter.OpenReadOnly(a.File, &mmapfilter.OpenOptions{Residency: a.Residency})
	return err
}

// lookUp looks the next absent key up.
func (w *worker) lookUp() {
	var key Key
	key.Set(0, Absent+w.asked)
	w.asked++
	w.filter.Contains(key[:])
}

// Look looks absent keys up for a time, and counts them.
func (w *worker) Look(d time.Duration, n *int) error {
	for begun := time.Now(); time.Since(begun) < d; *n += 16 {
		for range 16 {
			w.lookUp()
		}
	}
	return nil
}
