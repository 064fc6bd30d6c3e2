// Command bench measures the speed of filters: against the memory of the machine, against other
// filters, and at several sizes. Each command prints the machine, its command line and tables in
// Markdown. Times are processor times of the thread. The things that a command compares take turns,
// round by round. Figures are medians, and ratios are medians of the ratios within a round. Many
// figures come from files of the kernel, so the program runs only on Linux.
//
//	go -C tools/bench run . space     bits a key, and the measured rate, beside other filters
//	go -C tools/bench run . lookup    lookups, and random reads of the same file, at several sizes
//	go -C tools/bench run . peers     lookups of one key, inserts and deletes, beside other filters
//	go -C tools/bench run . build     files and sets from keys, beside other filters
//	go -C tools/bench run . writer    how long operations wait beside checkpoints, and what they write
//	go -C tools/bench run . rebuild   what kept hashes cost; rebuilds and growth from them
//	go -C tools/bench run . churn     rates and second lines of filters whose keys are replaced
//	go -C tools/bench run . stores    Pebble, bbolt and Badger, alone and behind a guard
//	go -C tools/bench run . memory    one copy for all processes, and a file larger than memory
//	go -C tools/bench run . serve     the server beside redis-server
//	go -C tools/bench run . replicas  how far replicas are behind a filter that changes
//	go -C tools/bench run . paper     the tables and figures of the cuckoo filter paper
//	go -C tools/bench run . results   writes the blocks of RESULTS.md again
//
// "go -C tools/bench run . COMMAND -help" lists the flags.
//
// Files are built in a directory that is removed at the end, also after ^C. The exit status is 0, or 2
// after an error.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		runChild()
		return
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func commands() map[string]func(*session) command {
	return map[string]func(*session) command{
		"space":    newSpace,
		"lookup":   newLookup,
		"peers":    newPeers,
		"build":    newBuild,
		"writer":   newWriter,
		"rebuild":  newRebuild,
		"churn":    newChurn,
		"stores":   newStores,
		"memory":   newMemory,
		"serve":    newServe,
		"replicas": newReplicas,
		"paper":    newPaper,
	}
}

const usage = "bench space, lookup, peers, build, writer, rebuild, churn, stores, memory, serve, replicas, paper or results, and its flags; see go doc"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := runCommand(ctx, args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	fmt.Fprintln(stderr, "bench:", err)
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
	s := &session{ctx: ctx, out: stdout, notes: stderr, size: 1 << 30}
	cmd, err := s.parse(args, create)
	if err != nil {
		return err
	}
	if s.rounds < 1 {
		return errors.New("-rounds must be at least 1")
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if s.temp, err = os.MkdirTemp(s.dir, "mmapfilter-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.temp)) }()
	s.printf("%s", head("go -C tools/bench run . "+shellWords(args), s.temp))
	return cmd.run()
}
