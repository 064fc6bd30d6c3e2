package measure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// Exit statuses of [Run], besides 0.
const (
	exitExceeded = 1 // a figure exceeds the bound that its command checks
	exitError    = 2
)

// errExceeded ends a command whose figure exceeds its bound.
var errExceeded = errors.New("the bound is exceeded")

// A session is one run of a command: its flags, its output and its directory of files.
type session struct {
	ctx    context.Context
	out    io.Writer
	notes  io.Writer // progress
	flags  *flag.FlagSet
	temp   string // removed at the end
	parent string // the directory of temp

	file  string
	bytes figures.Size
	short bool
}

// A command has flags, and runs once they are set. In a short run, the values in short replace
// the defaults of those flags.
type command struct {
	flags func(s *session)
	short map[string]string
	run   func(s *session) error
}

// fileFlag adds -file to a command that works with any filter.
func (s *session) fileFlag() {
	s.flags.StringVar(&s.file, "file", "", "a filter to take instead of building one")
}

func (s *session) path(name string) string { return filepath.Join(s.temp, name) }

func (s *session) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// note prints progress.
func (s *session) note(format string, args ...any) {
	fmt.Fprintf(s.notes, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// print writes a table between blank lines.
func (s *session) print(t *figures.Table) { s.printf("\n%s\n", t) }
