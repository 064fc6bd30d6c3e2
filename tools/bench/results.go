package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// resultsCommand runs measurements and writes what they print. RESULTS.md and PAPER.md are prose and
// blocks. A block stands between comments that have its name, and begins with its command:
//
//	<!-- results lookup -->
//	    go -C tools/bench run . lookup -rounds 9
//	<!-- end of lookup -->
//
// The command runs in the root of the repository. Its output is below it, with its machine, date and
// commit. For "go test -bench", the output becomes a table of each benchmark.
const resultsCommand = "results"

// A results runs the commands of a page.
type results struct {
	ctx   context.Context
	notes io.Writer
	root  string // of the repository
	page  string
	short bool
}

// runResults runs the command. Its arguments are flags and names of blocks; no names means all
// blocks.
func runResults(ctx context.Context, args []string, stderr io.Writer) error {
	r := &results{ctx: ctx, notes: stderr}
	flags := flag.NewFlagSet("bench "+resultsCommand, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.root, "root", "../..", "root of the repository, where the commands run")
	flags.StringVar(&r.page, "page", "RESULTS.md", "page whose blocks are written")
	flags.BoolVar(&r.short, "short", false, "small and quick: to see that the commands work, not what they measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return r.run(flags.Args())
}

// run runs the commands of some blocks, and writes the page after each one. If a command fails,
// its block stays as it is.
func (r *results) run(names []string) error {
	text, err := os.ReadFile(r.page)
	if err != nil {
		return err
	}
	parts, err := parsePage(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", r.page, err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p section) bool { return p.name == name }) {
			return fmt.Errorf("%s has no block %q", r.page, name)
		}
	}
	var failed []error
	for i, p := range parts {
		if p.name == "" || len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		begun := time.Now()
		fmt.Fprintf(r.notes, "%s %s: %s\n", begun.Format("15:04:05"), p.name, p.command())
		out, err := r.command(p.command())
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		fmt.Fprintf(r.notes, "%s took %.0f s\n", p.name, time.Since(begun).Seconds())
		parts[i].fill(out)
		if err := os.WriteFile(r.page, []byte(formatPage(parts)), 0o666); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// command returns the text of a block: the output of a command of bench, or tables of
// benchmarks.
func (r *results) command(text string) (string, error) {
	benchmarks := strings.HasPrefix(text, "go test ")
	run := text
	switch {
	case r.short && benchmarks:
		run += " -short -benchtime 1x"
	case r.short:
		run += " -short"
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(r.ctx, "sh", "-c", run)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, &out, io.MultiWriter(&errs, r.notes)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", text, err, lastLine(cmp.Or(errs.String(), out.String())))
	}
	if !benchmarks {
		return out.String(), nil
	}
	tables, err := benchmarkTables(out.String())
	if err != nil {
		return "", err
	}
	return machine.This().Head(text, os.TempDir()) + tables, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
