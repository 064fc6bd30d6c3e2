// Command evaluate repeats the evaluation of the cuckoo filter paper (Fan, Andersen, Kaminsky,
// Mitzenmacher, "Cuckoo Filter: Practically Better Than Bloom", CoNEXT'14), with mmapfilter and
// with other filters. From the root of the module:
//
//	go -C tools/evaluate run . all                 # every figure, small: to results/README.md
//	go -C tools/evaluate run . fig5 --scale paper  # one, at the size of the paper
//
// The data of each figure are in a JSON file and a CSV file. The pictures and the page are drawn
// from the JSON files alone. They are drawn again, without measuring, by
//
//	go -C tools/evaluate run . draw
//
// The exit status is 0, or 2 after an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
	"github.com/spf13/cobra"
)

const exitError = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], experiments, os.Stdout, os.Stderr))
}

// run runs the command in args, and returns the exit status.
func run(ctx context.Context, args []string, list []experiment, stdout, stderr io.Writer) int {
	root := newRootCommand(list)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "evaluate: %v\n", err)
		return exitError
	}
	return 0
}

// rootHelp is the help text, with room for the list of experiments.
const rootHelp = `Usage: evaluate COMMAND... [--scale small|paper] [--out DIR] [--seed N] [...]

Run the evaluation of the cuckoo filter paper again. A command runs one
experiment, writes its data as JSON and CSV, and draws the page of all. Several
run one after the other; table3 and fig5 to fig8 then fill tables once.

%s  all     run all of them; one that fails does not keep the others from running
  draw    draw pictures and page again, of the data that are there

      --scale small|paper   how large (small: minutes; paper: its sizes)
      --out DIR             directory of the figures (results)
      --seed N              of the keys, 0 to 18446744073709551615 (1)
      --dir DIR             where a directory for filter files is made, and
                            removed at the end (where temporary files are)

Exit status: 0, or 2 after an error.`

func newRootCommand(list []experiment) *cobra.Command {
	c := &config{viewers: viewers(list)}
	var lines strings.Builder
	for _, e := range list {
		fmt.Fprintf(&lines, "  %-7s %s\n", e.name, e.title)
	}
	root := &cobra.Command{
		Use:           "evaluate",
		Long:          fmt.Sprintf(rootHelp, lines.String()),
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if c.scale != scaleSmall && c.scale != scalePaper {
				return fmt.Errorf("--scale is small or paper, not %q", c.scale)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no command %q; see evaluate --help", args[0])
			}
			return cmd.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true, RunE: func(*cobra.Command, []string) error { return root.Help() }})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), root.Long) })
	flags := root.PersistentFlags()
	flags.StringVar((*string)(&c.scale), "scale", string(scaleSmall), "small or paper")
	flags.StringVar(&c.out, "out", "results", "directory of the figures")
	flags.Uint64Var(&c.seed, "seed", 1, "of the keys")
	flags.StringVar(&c.dir, "dir", os.TempDir(), "where a directory for filter files is made")
	command := func(name string, args cobra.PositionalArgs, first []experiment) {
		root.AddCommand(&cobra.Command{Use: name, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
			c.progress = cmd.ErrOrStderr()
			run := slices.Clone(first)
			for _, name := range args {
				run = append(run, list[named(list, name)])
			}
			return c.runAll(cmd.Context(), run)
		}})
	}
	for _, e := range list {
		command(e.name, experimentsOf(list), []experiment{e})
	}
	command("all", noArguments, list)
	root.AddCommand(&cobra.Command{Use: "draw", Args: noArguments, RunE: func(*cobra.Command, []string) error {
		return report.Draw(c.out, c.viewers)
	}})
	return root
}

// experimentsOf accepts the names of further experiments.
func experimentsOf(list []experiment) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if named(list, name) < 0 {
				return fmt.Errorf("there is no experiment %q; see evaluate --help", name)
			}
		}
		return nil
	}
}

// named returns the index of the experiment with a name, or -1.
func named(list []experiment, name string) int {
	return slices.IndexFunc(list, func(e experiment) bool { return e.name == name })
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, such as %q", cmd.Name(), args[0])
	}
	return nil
}

// runAll runs experiments one after another, with a directory for their files. After a signal
// it returns without waiting for the running one.
func (c *config) runAll(ctx context.Context, list []experiment) (err error) {
	// Check now, not when the first experiment is done.
	if err := writable(c.out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if c.dir, err = os.MkdirTemp(c.dir, "mmapfilter-evaluate-"); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	c.ctx, c.extent = ctx, extents[c.scale]
	done := make(chan error, 1)
	go func() {
		var failed error
		for _, e := range list {
			if ctx.Err() == nil {
				failed = errors.Join(failed, c.figure(e))
			}
		}
		done <- errors.Join(failed, c.close())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}

// writable creates a directory, and creates and removes a file in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".writable-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
