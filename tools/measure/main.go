// Command measure measures what filters ask of a machine: memory that processes
// share, pages that are read, and what lookups wait for. Its figures are the
// kernel's own wherever the kernel keeps them. Each command prints the machine,
// its command line and tables in Markdown.
//
//	go run ./tools/measure share      one copy in memory for all processes
//	go run ./tools/measure residency  a file that is larger than memory
//	go run ./tools/measure cold       pages read by a lookup, nothing in memory
//	go run ./tools/measure lookup     two goroutines, beside a writer, percentiles
//
// "measure COMMAND -help" lists the flags. The files it builds, a GiB or two, are
// in a directory of their own, and go with it at the end, also after ^C.
//
// The exit status is 0; 1 where a bound that a command holds its figure against is
// exceeded; 2 after an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

const (
	exitExceeded = 1
	exitError    = 2
)

// errExceeded ends a command whose figure exceeds its bound.
var errExceeded = errors.New("the bound is exceeded")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		os.Exit(runChild(os.Stdin, os.Stdout))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// A session is one run of a command: its flags, where it prints, and the
// directory that its files are in.
type session struct {
	ctx    context.Context
	out    io.Writer
	notes  io.Writer // what it is doing
	flags  *flag.FlagSet
	temp   string // removed at the end
	parent string // that temp is in

	file  string
	bytes figures.Size
	short bool
}

// A command has flags, and is run once they are set. What -short sets is what
// its flag begins with in a short run.
type command struct {
	flags func(s *session)
	short map[string]string
	run   func(s *session) error
}

func commands() map[string]func() command {
	return map[string]func() command{
		"share":     newShare,
		"residency": newResidency,
		"cold":      newCold,
		"lookup":    newLookup,
	}
}

const usage = "measure share, residency, cold or lookup, and its flags; see go doc ./tools/measure"

// run is the whole program. It gives the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := runCommand(ctx, args, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errExceeded):
		fmt.Fprintln(stderr, "measure:", err)
		return exitExceeded
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	fmt.Fprintln(stderr, "measure:", err)
	return exitError
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 0 {
		return errors.New(usage)
	}
	name := args[0]
	make, ok := commands()[name]
	if !ok {
		return fmt.Errorf("there is no command %q: %s", name, usage)
	}
	cmd := make()
	s := &session{ctx: ctx, out: stdout, notes: stderr, bytes: 1 << 30}
	s.flags = flag.NewFlagSet("measure "+name, flag.ContinueOnError)
	s.flags.SetOutput(stderr)
	s.flags.StringVar(&s.parent, "dir", os.TempDir(), "directory for the files it builds; on a disk, where that matters")
	s.flags.Var(&s.bytes, "bytes", "size of the filter it builds")
	s.flags.BoolVar(&s.short, "short", false, "small and quick: to see that it works, not what it measures")
	cmd.flags(s)
	if err := s.parse(args[1:], cmd.short); err != nil {
		return err
	}
	if s.parent, err = filepath.Abs(s.parent); err != nil {
		return err
	}
	if s.temp, err = os.MkdirTemp(s.parent, "mmapfilter-measure-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.temp)) }()
	s.printf("%s", machine.This().Head("go run ./tools/measure "+machine.ShellWords(args), s.temp))
	return cmd.run(s)
}

// parse sets the flags; those of a short run that are not given are set to its
// own values.
func (s *session) parse(args []string, short map[string]string) error {
	if err := s.flags.Parse(args); err != nil {
		return err
	}
	if s.flags.NArg() > 0 {
		return fmt.Errorf("there is no argument such as %q", s.flags.Arg(0))
	}
	if !s.short {
		return nil
	}
	given := map[string]bool{}
	s.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range short {
		if !given[name] {
			if err := s.flags.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileFlag adds -file to a command that can do with any filter.
func (s *session) fileFlag() {
	s.flags.StringVar(&s.file, "file", "", "a filter to take instead of building one")
}

func (s *session) path(name string) string { return filepath.Join(s.temp, name) }

func (s *session) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// note prints progress for someone who waits.
func (s *session) note(format string, args ...any) {
	fmt.Fprintf(s.notes, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// print writes a table between blank lines.
func (s *session) print(t *figures.Table) { s.printf("\n%s\n", t) }
