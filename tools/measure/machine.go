package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// printHeader prints what was run, and on what.
func (s *session) printHeader(args []string) {
	processor, cores, kernel, memory := machine()
	s.printf("%s\n\n    %s\n\n", time.Now().Format(time.DateOnly), "go run ./tools/"+strings.Join(args, " "))
	s.printf("%s, %d cores; %s; %s; %s\n", processor, cores, kernel, runtime.Version(), memory)
	if fs := fileSystem(s.temp); fs != "" {
		s.printf("files on %s\n", fs)
	}
}

// otherMachine is what Go knows of a machine.
func otherMachine() (processor string, cores int, kernel, memory string) {
	return runtime.GOARCH, runtime.NumCPU(), runtime.GOOS, fmt.Sprintf("GOMAXPROCS %d", runtime.GOMAXPROCS(0))
}

// print writes a table between blank lines.
func (s *session) print(t *figures.Table) { s.printf("\n%s\n", t) }
