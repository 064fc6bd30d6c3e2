package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// printHeader prints what was run, and on what.
func (s *session) printHeader(args []string) {
	s.printf("%s\n\n    go -C tools/bench run . %s\n\n", time.Now().Format(time.DateOnly), shellWords(args))
	s.printf("%s, %d cores; %s %s; %s; load before %s; large pages %s\n",
		field("/proc/cpuinfo", "model name", runtime.GOARCH), runtime.NumCPU(), runtime.GOOS,
		firstWord("/proc/sys/kernel/osrelease"), runtime.Version(), firstWord("/proc/loadavg"), largePages())
}

// shellWords writes arguments as a shell takes them.
func shellWords(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; arg == "" || strings.ContainsAny(arg, " ()'\"$&;<>*?|\\`#~") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// field is the value of the first line "name : value" of a file, or otherwise.
func field(file, name, otherwise string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(text)) {
		if n, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

func firstWord(file string) string {
	text, err := os.ReadFile(file)
	if words := strings.Fields(string(text)); err == nil && len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// largePages says whether memory of the heap may be in large pages, which random reads
// of gibibytes feel.
func largePages() string {
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return "unknown"
	}
	_, rest, _ := strings.Cut(string(text), "[")
	chosen, _, _ := strings.Cut(rest, "]")
	return chosen
}

// peakMemory is the most memory that this process has had, as text.
func peakMemory() string {
	return field("/proc/self/status", "VmHWM", fmt.Sprintf("unknown on %s", runtime.GOOS))
}
