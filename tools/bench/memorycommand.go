package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// newMemory returns the command that measures what filters ask of the memory of a machine. Its
// figures come from the kernel, so only Linux has it.
func newMemory() command {
	m := &memoryRun{limit: 256 << 20}
	return command{
		flags: func(s *session) {
			m.session = s
			s.rounds = 3
			s.flags.StringVar(&m.parts, "parts", strings.Join(memoryParts, ","), "share: one copy for all processes; residency: a file larger than memory")
			s.flags.IntVar(&m.processes, "processes", 8, "share: how many have the filter open, and how many none")
			s.flags.Var(&m.limit, "limit", "residency: memory of the process for which the file is too large, with the page cache that it fills")
			s.flags.DurationVar(&m.steady, "time", 5*time.Second, "residency: how long lookups are measured at full speed, after as long a time from the first one on")
		},
		short: map[string]string{"size": "32MiB", "rounds": "1", "processes": "3", "limit": "16MiB", "time": "20ms"},
		run:   func(*session) error { return m.run() },
	}
}

var memoryParts = []string{"share", "residency"}

func (m *memoryRun) run() error {
	parts := strings.Split(m.parts, ",")
	for _, part := range parts {
		if !slices.Contains(memoryParts, part) {
			return fmt.Errorf("%q is not one of %v", part, memoryParts)
		}
	}
	for _, part := range parts {
		var err error
		switch part {
		case "share":
			err = m.share()
		case "residency":
			err = m.residency()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
