package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program in any role.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("stress", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.length, "for", 30*time.Second, "how long to run")
	flags.IntVar(&o.lives, "lives", 0, "end after this many lives of the writer; 0 means no limit")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of the random choices; 0 means a random seed")
	flags.StringVar(&o.dir, "dir", "", "directory to create for the files, which are kept")
	flags.StringVar(&o.role, "role", "", "internal: role of a process that stress starts")
	flags.IntVar(&o.number, "number", 0, "internal: number of a process that stress starts")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitGood
		}
		return exitError
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "stress takes no arguments, but got %q\n", flags.Arg(0))
		return exitError
	}
	status, err := o.run(stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", o.role, err)
		return exitError
	}
	return status
}

func (o options) run(stdout, stderr io.Writer) (status int, err error) {
	if o.role == "" {
		return o.runParent(stdout, stderr)
	}
	act := roles[o.role]
	if act == nil {
		return exitError, errors.New("unknown role")
	}
	p, err := newProcess(o, stderr)
	if err != nil {
		return exitError, err
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent handles them
	untilParentEnds()
	return act(p), nil
}

// roles maps the roles of child processes to what they do.
var roles = map[string]func(*process) int{
	"writer":  (*process).write,
	"reader":  (*process).read,
	"recover": (*process).recoverFile,
	"build":   (*process).build,
}

func (o options) runParent(stdout, stderr io.Writer) (status int, err error) {
	for o.seed == 0 {
		o.seed = rand.Uint64()
	}
	fmt.Fprintf(stdout, "seed %d\n", o.seed)
	keep := o.dir != ""
	if keep {
		err = os.Mkdir(o.dir, 0o700)
	} else {
		o.dir, err = os.MkdirTemp("", "mmapfilter-stress-")
	}
	if err != nil {
		return exitError, err
	}
	defer func() {
		if keep || status != exitGood {
			fmt.Fprintf(stdout, "the files are in %s\n", o.dir)
		} else {
			err = errors.Join(err, os.RemoveAll(o.dir))
		}
	}()
	process, err := newProcess(o, stderr)
	if err != nil {
		return exitError, err
	}
	p := &parent{process: process}
	begun := time.Now()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, o.length)
	defer cancel()
	defer p.endAll()
	if err := p.run(ctx, o.lives); err != nil {
		return exitError, err
	}
	if err := p.print(stdout, time.Since(begun)); err != nil {
		return exitError, err
	}
	if p.violated() {
		return exitViolation, nil
	}
	return exitGood, nil
}
