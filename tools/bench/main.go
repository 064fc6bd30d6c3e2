// Command bench measures the speed of filters: against the memory of the machine, against other
// filters, and at several sizes. Each command prints the machine, its command line and tables in
// Markdown. Times are processor times of the thread, where the system reports them. What is
// compared takes turns in rounds. Figures are medians, and ratios are medians of the ratios within
// a round.
//
//	go -C tools/bench run . lookup    lookups, and random reads of the same file
//	go -C tools/bench run . peers     lookups of one key, beside other filters
//	go -C tools/bench run . insert    inserts and deletes by load, beside other filters
//	go -C tools/bench run . build     files from keys, beside other filters on all processors
//	go -C tools/bench run . billions  a filter of two billion keys: built, verified, opened, asked
//	go -C tools/bench run . growth    lookups, inserts and builds from 64 KiB up: CSV and pictures
//	go -C tools/bench run . churn     rates and second lines of filters whose keys are replaced: CSV and pictures
//	go -C tools/bench run . space     bits a key at the rate that is measured, beside other filters
//	go -C tools/bench run . writer    how long operations wait while checkpoints go on, and what they write
//	go -C tools/bench run . rebuild   what kept hashes cost; rebuilds, merges and growth from them
//	go -C tools/bench run . stores    Pebble, bbolt and Badger, alone and behind a guard
//	go -C tools/bench run . life      such a store grows and shrinks while absent keys are asked for
//	go -C tools/bench run . sets      sets of shards: built in tasks, asked and written, beside one file
//	go -C tools/bench run . share     one copy in memory for all processes
//	go -C tools/bench run . residency a file that is larger than memory
//	go -C tools/bench run . cold      pages read by a lookup, nothing in memory
//	go -C tools/bench run . beside    lookups of two goroutines and beside a writer, percentiles
//	go -C tools/bench run . results   writes RESULTS.md, and the figures in README.md, again
//
// "go -C tools/bench run . COMMAND -help" lists the flags.
//
// Files are built in a directory that is removed at the end, also after ^C. The exit status is 0;
// 1 if a figure exceeds the bound that its command checks; 2 after an error.
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
	if len(os.Args) > 1 && os.Args[1] == setTask {
		if err := runSetTask(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(2)
		}
		return
	}
	if code, ok := runRole(os.Args[1:]); ok {
		os.Exit(code)
	}
	if code, ok := measure.Child(os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
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
		"writer":   newWriter,
		"rebuild":  newRebuild,
		"stores":   newStores,
		"life":     newStoreLife,
		"sets":     newSets,
	}
}

const usage = "bench lookup, peers, insert, build, billions, growth, churn, space, writer, rebuild, stores, life, sets, pages, share, residency, cold, beside or results, and its flags; see go doc"

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

// exitStatus returns the exit status for an error.
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
