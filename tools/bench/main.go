// Command bench measures how fast filters are: against what the memory of the
// machine can give, against filters of others, and at several sizes. Each command
// prints the machine, its command line and tables in Markdown. Times are those that
// processors gave the thread, where the system says them; what is compared takes
// turns in rounds, and the figures are medians, of ratios within a round.
//
//	go -C tools/bench run . lookup    lookups, and random reads of the same file
//	go -C tools/bench run . peers     lookups of one key, beside other filters
//	go -C tools/bench run . insert    inserts and deletes by load, beside other filters
//	go -C tools/bench run . build     files from keys, beside other filters on all processors
//	go -C tools/bench run . billions  a filter of two billion keys: built, verified, opened, asked
//	go -C tools/bench run . growth    lookups, inserts and builds from 64 KiB up: CSV and pictures
//	go -C tools/bench run . churn     rates and second lines of filters whose keys are replaced: CSV and pictures
//	go -C tools/bench run . space     bits a key at the rate that is measured, beside other filters
//	go -C tools/bench run . share     one copy in memory for all processes
//	go -C tools/bench run . residency a file that is larger than memory
//	go -C tools/bench run . cold      pages read by a lookup, nothing in memory
//	go -C tools/bench run . beside    lookups of two goroutines and beside a writer, percentiles
//	go -C tools/bench run . results   writes RESULTS.md, and the figures in README.md, again
//
// "go -C tools/bench run . COMMAND -help" lists the flags. "peers", "insert" and "space" take, with
// -outside NAME=PROGRAM, a filter that is a program of its own, which speaks the
// protocol of package peer, as often as one likes; it is measured in the same run:
//
//	go -C tools/bench run . peers -outside 'another=/path/to/program its arguments'
//
// The files that it builds are in a directory of their own, and go with it at the end,
// also after ^C. The exit status is 0; 1 if a bound that a command checks its figure against is
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
	"runtime/debug"
	"syscall"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
	"github.com/mmapfilter/mmapfilter/tools/internal/measure"
	"github.com/mmapfilter/mmapfilter/tools/internal/shortrun"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == builderCommand {
		os.Exit(runBuilder(ctx, os.Args[2:], os.Stdout, os.Stderr))
	}
	if code, ok := measure.Child(os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// A session is one run of a command.
type session struct {
	ctx   context.Context
	out   io.Writer
	notes io.Writer // what it is doing
	flags *flag.FlagSet
	temp  string // for files; removed at the end

	mapped string // how the filter that was built last is mapped: "ext4, all in pages of 4 KiB"

	size   figures.Size // of the lines of the filter it builds
	rounds int
	seed   uint64
	dir    string // that temp is in
	short  bool

	smallPages bool // what is built is held in the smallest pages
}

// A command has flags, and is run once they are set. What -short sets is what its
// flag begins with in a short run.
type command struct {
	flags func(s *session)
	short map[string]string
	run   func(s *session) error
}

func commands() map[string]func() command {
	return map[string]func() command{
		"lookup":   newLookup,
		"peers":    newPeers,
		"insert":   newInsert,
		"build":    newBuild,
		"billions": newBillions,
		"growth":   newGrowth,
		"churn":    newChurn,
		"space":    newSpace,
	}
}

const usage = "bench lookup, peers, insert, build, billions, growth, churn, space, share, residency, cold, beside or results, and its flags; see go doc"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && measure.Has(args[0]) {
		return measure.Run(ctx, args, stdout, stderr)
	}
	err := runCommand(ctx, args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	fmt.Fprintln(stderr, "bench:", err)
	return exitStatus(err)
}

// errExceeded is what a command gives whose figure exceeds its bound.
var errExceeded = errors.New("a bound is exceeded")

// exitStatus is that of a run that ended with an error.
func exitStatus(err error) int {
	if errors.Is(err, errExceeded) {
		return 1
	}
	return 2
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 0 {
		return errors.New(usage)
	}
	if args[0] == resultsCommand {
		return runResults(ctx, args[1:], stderr)
	}
	create, ok := commands()[args[0]]
	if !ok {
		return fmt.Errorf("there is no command %q: %s", args[0], usage)
	}
	cmd := create()
	s := &session{ctx: ctx, out: stdout, notes: stderr, size: 1 << 30}
	s.flags = flag.NewFlagSet("bench "+args[0], flag.ContinueOnError)
	s.flags.SetOutput(stderr)
	s.commonFlags()
	cmd.flags(s)
	if err := shortrun.Parse(s.flags, args[1:], &s.short, cmd.short); err != nil {
		return err
	}
	if s.rounds < 1 {
		return errors.New("no rounds, no figures")
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if s.temp, err = os.MkdirTemp(s.dir, "mmapfilter-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.temp)) }()
	s.printf("%s", machine.This().Head("go -C tools/bench run . "+machine.ShellWords(args), s.temp))
	return cmd.run(s)
}

// commonFlags are those of every command.
func (s *session) commonFlags() {
	s.flags.Var(&s.size, "size", "size of the lines of the filter it builds")
	s.flags.IntVar(&s.rounds, "rounds", 15, "how often each takes its turn")
	s.flags.Uint64Var(&s.seed, "seed", 1, "of the keys and of what is drawn")
	s.flags.StringVar(&s.dir, "dir", os.TempDir(), "directory for the files it builds")
	s.flags.BoolVar(&s.short, "short", false, "small and quick: to see that it works, not what it measures")
	s.flags.BoolVar(&s.smallPages, "small-pages", false, "have the page cache hold what it builds in pages of 4 KiB, as a file on a disk that is written to")
}

// takeTurns runs rounds of n turns, each round beginning with another one, and gives
// for each turn what its rounds gave.
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

// print writes a table between blank lines.
func (s *session) print(t *figures.Table) { s.printf("\n%s\n", t) }

// note prints progress for someone who waits.
func (s *session) note(format string, args ...any) {
	fmt.Fprintf(s.notes, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// forget gives the memory back of what nobody uses any more, before something of the
// same size is made.
func forget() { debug.FreeOSMemory() }
