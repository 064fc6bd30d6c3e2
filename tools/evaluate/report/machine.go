package report

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Machine is where and when something was measured.
type Machine struct {
	Processor   string
	Cores       int
	MemoryBytes uint64 // 0: unknown
	System      string // and its version
	Go          string
	Date        time.Time
}

// ThisMachine is the one that runs this. What its system does not tell in
// Linux's /proc is what Go knows.
func ThisMachine() Machine {
	m := Machine{
		Processor: runtime.GOARCH,
		Cores:     runtime.NumCPU(),
		System:    runtime.GOOS,
		Go:        runtime.Version(),
		Date:      time.Now().Truncate(time.Second),
	}
	if model := procField("/proc/cpuinfo", "model name"); model != "" {
		m.Processor = model
	}
	if kibibytes, err := strconv.ParseUint(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.MemoryBytes = kibibytes << 10
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System = "Linux " + strings.TrimSpace(string(release))
	}
	return m
}

// procField is the value of the first line "name: value"; "" where there is none.
func procField(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// String describes the machine, without the date.
func (m Machine) String() string {
	memory := "memory unknown"
	if m.MemoryBytes > 0 {
		memory = fmt.Sprintf("%.1f GiB of memory", float64(m.MemoryBytes)/(1<<30))
	}
	cores := "1 core"
	if m.Cores != 1 {
		cores = fmt.Sprintf("%d cores", m.Cores)
	}
	return fmt.Sprintf("%s, %s; %s; %s; %s", m.Processor, cores, memory, m.System, m.Go)
}

// Day is the date, as 2026-01-31.
func (m Machine) Day() string { return m.Date.Format(time.DateOnly) }
