// Package machine describes the machine of a measurement, and reads what Linux says in /proc
// about memory and mounts. On other systems it reports what Go knows.
package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Machine says where, when and with which version something was measured.
type Machine struct {
	Processor   string
	Cores       int
	MemoryBytes uint64 // 0 if unknown
	System      string // with its version
	Go          string
	Date        time.Time
	Commit      string // with " + changes" if files differ; "" if unknown
}

// This describes the machine that runs this program.
func This() Machine {
	m := Machine{
		Processor: runtime.GOARCH,
		Cores:     runtime.NumCPU(),
		System:    runtime.GOOS,
		Go:        runtime.Version(),
		Date:      time.Now().Truncate(time.Second),
		Commit:    commitOf("."),
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

// commitOf names the commit of a work tree, and says whether files differ from the commit.
// Results that a run writes do not count as changes, nor do files that Git ignores.
func commitOf(dir string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return ""
	}
	changes, err := git("status", "--porcelain", "--", ":/",
		":(exclude,top)tools/bench/RESULTS.md", ":(exclude,top)tools/bench/PAPER.md", ":(exclude,top,glob)tools/bench/*.csv", ":(exclude,top,glob)tools/bench/*.svg")
	if err != nil || changes != "" {
		commit += " + changes"
	}
	return commit
}

// procField returns the value of the first line "name: value", or "" if there is none.
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

// Head returns the Markdown text above the tables of a command. It has the command, as to be
// run in the root of the repository; when and on which machine it ran; and the file system of
// dir, which has the files of the run.
func (m Machine) Head(command, dir string) string {
	files := FileSystem(dir)
	if files == "" {
		files = "a file system that is not known"
	}
	commit := m.Commit
	if commit == "" {
		commit = "not recorded"
	}
	return fmt.Sprintf("    %s\n\n%s, %s; commit %s; files on %s\n", command, m.Date.Format(time.DateOnly), m, commit, files)
}

// ShellWords quotes arguments for a shell.
func ShellWords(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; arg == "" || strings.ContainsAny(arg, " ()'\"$&;<>*?|\\`#~") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// PeakMemory is the most memory that this process has used so far, in bytes, or 0 if the system does
// not say.
func PeakMemory() (bytes int64) {
	fmt.Sscanf(procField("/proc/self/status", "VmHWM"), "%d kB", &bytes)
	return bytes << 10
}
