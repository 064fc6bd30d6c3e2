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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resultsCommand runs measurements and writes what they print. RESULTS.md and PAPER.md consist of
// prose and blocks. A block stands between comments that have its name, and begins with its
// command:
//
//	<!-- results lookup -->
//	    go -C tools/bench run . lookup -rounds 9
//	<!-- end of lookup -->
//
// The command runs in the root of the repository. Below the command is its output, with machine,
// date and commit. For "go test -bench", the output becomes a table.
const resultsCommand = "results"

// A block is a part of a page. all is its whole text; the other fields are parts of that text.
type block struct{ all, name, command, output string }

var (
	blockForm   = regexp.MustCompile(`(?ms)^<!-- results ([a-z0-9-]+) -->\n    ([^\n]*)\n(.*?)^<!-- end of ([a-z0-9-]+) -->$`)
	commentForm = regexp.MustCompile(`(?m)^<!-- .*`)
)

// blocksOf returns the blocks of a page.
func blocksOf(page string) (blocks []block, err error) {
	for _, m := range blockForm.FindAllStringSubmatch(page, -1) {
		b := block{m[0], m[1], m[2], m[3]}
		if m[4] != b.name || commentForm.MatchString(b.output) {
			return nil, fmt.Errorf("the block %s has no end", b.name)
		}
		if slices.ContainsFunc(blocks, func(other block) bool { return other.name == b.name }) {
			return nil, fmt.Errorf("two blocks are called %s", b.name)
		}
		blocks = append(blocks, b)
	}
	if stray := commentForm.FindString(blockForm.ReplaceAllString(page, "")); stray != "" {
		return nil, fmt.Errorf("%q is not the begin or end of a block that has a command", stray)
	}
	return blocks, nil
}

// with returns the block with the output of its command. It drops the line in the output that
// repeats the command, and merges blank lines.
func (b *block) with(out string) string {
	out = strings.TrimSpace(strings.TrimPrefix(out, "    "+b.command+"\n"))
	lines := slices.CompactFunc(strings.Split(out, "\n"), func(a, b string) bool { return a == "" && b == "" })
	return fmt.Sprintf("<!-- results %s -->\n    %s\n%s\n<!-- end of %s -->", b.name, b.command, strings.Join(lines, "\n"), b.name)
}

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
	blocks, err := blocksOf(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", r.page, err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(blocks, func(b block) bool { return b.name == name }) {
			return fmt.Errorf("%s has no block %q", r.page, name)
		}
	}
	var failed []error
	for _, b := range blocks {
		if len(names) > 0 && !slices.Contains(names, b.name) {
			continue
		}
		begun := time.Now()
		fmt.Fprintf(r.notes, "%s %s: %s\n", begun.Format("15:04:05"), b.name, b.command)
		out, err := r.command(b.command)
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", b.name, err))
			continue
		}
		fmt.Fprintf(r.notes, "%s took %.0f s\n", b.name, time.Since(begun).Seconds())
		text = bytes.Replace(text, []byte(b.all), []byte(b.with(out)), 1)
		if err := os.WriteFile(r.page, text, 0o666); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// command returns the text of a block: the output of a command of bench, or a table of benchmarks.
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
	table, err := benchmarkTable(out.String())
	return head(text, os.TempDir()) + "\n" + table, err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// benchmarkForm has the name of a benchmark and its values, each followed by its unit. Go appends the
// number of processors to the name.
var benchmarkForm = regexp.MustCompile(`(?m)^Benchmark(\S*?)(?:-\d+)?\s+\d+\s+(.+)$`)

// benchmarkTable makes a table of what "go test -bench" has printed: the median of all runs of a
// benchmark, in a column for each unit.
func benchmarkTable(out string) (string, error) {
	var names, units []string
	runs := map[[2]string][]float64{} // by name and unit
	for _, m := range benchmarkForm.FindAllStringSubmatch(out, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
		for values := strings.Fields(m[2]); len(values) > 1; values = values[2:] {
			x, err := strconv.ParseFloat(values[0], 64)
			if err != nil {
				return "", fmt.Errorf("%s: %w", m[0], err)
			}
			if !slices.Contains(units, values[1]) {
				units = append(units, values[1])
			}
			runs[[2]string{m[1], values[1]}] = append(runs[[2]string{m[1], values[1]}], x)
		}
	}
	if len(names) == 0 {
		return "", errors.New("no benchmark has run")
	}
	t := NewTable(append([]string{"benchmark"}, units...)...)
	for _, name := range names {
		row := []string{name}
		for _, unit := range units {
			cell := ""
			if all := runs[[2]string{name, unit}]; all != nil {
				cell = Digits(Median(all))
			}
			row = append(row, cell)
		}
		t.Row(row...)
	}
	return t.String(), nil
}
