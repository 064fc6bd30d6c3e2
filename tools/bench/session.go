package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// A session is one run of a command.
type session struct {
	ctx   context.Context
	out   io.Writer
	notes io.Writer // progress
	flags *flag.FlagSet
	temp  string // directory for files; removed at the end

	mapped string // how the last filter built is mapped: "ext4, all in pages of 4 KiB"

	size   figures.Size // of the lines of the filter to build
	rounds int
	seed   uint64
	dir    string // parent of temp
	short  bool
}

// parse sets the flags that every command has, and the command's own flags. With -short, a flag that
// is not given takes its value from command.short.
func (s *session) parse(args []string, cmd command) error {
	s.flags = flag.NewFlagSet("bench "+args[0], flag.ContinueOnError)
	s.flags.SetOutput(s.notes)
	s.flags.Var(&s.size, "size", "size of the lines of the filter it builds")
	s.flags.IntVar(&s.rounds, "rounds", 15, "how often each takes its turn")
	s.flags.Uint64Var(&s.seed, "seed", 1, "of the keys and of what is drawn")
	s.flags.StringVar(&s.dir, "dir", os.TempDir(), "directory for the files it builds; on a disk, where that matters")
	s.flags.BoolVar(&s.short, "short", false, "small and quick: to see that it works, not what it measures")
	cmd.flags(s)
	if err := s.flags.Parse(args[1:]); err != nil {
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
	for name, value := range cmd.short {
		if !given[name] {
			if err := s.flags.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeTurns runs rounds of n turns, each round starting with another turn. It returns the
// values of each turn, one for each round.
func (s *session) takeTurns(n int, turn func(i int) (float64, error)) ([][]float64, error) {
	all := make([][]float64, n)
	for round := range s.rounds {
		for k := range n {
			if err := s.ctx.Err(); err != nil {
				return nil, err
			}
			i := (round + k) % n
			v, err := turn(i)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], v)
		}
	}
	return all, nil
}

func (s *session) path(name string) string { return filepath.Join(s.temp, name) }

func (s *session) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// print prints a table between blank lines.
func (s *session) print(t *figures.Table) { s.printf("\n%s\n", t) }

// note prints progress.
func (s *session) note(format string, args ...any) {
	fmt.Fprintf(s.notes, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// A command has flags, and runs once they are set. short holds the defaults of flags in a run
// with -short.
type command struct {
	flags func(s *session)
	short map[string]string
	run   func(s *session) error
}

// forget returns unused memory to the system, before something of the same size is made.
func forget() { debug.FreeOSMemory() }
