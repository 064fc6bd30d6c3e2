// Command mmapfilter builds, asks and inspects filter files.
//
// The exit status is 0 for yes, 1 for no (check selected no key, verify found
// damage), and 2 where there is no answer because of an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

const (
	exitYes   = 0
	exitNo    = 1
	exitError = 2
)

func main() {
	ctx := untilSignal(context.Background())
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if status == exitError {
		endBySignal(ctx)
	}
	os.Exit(status)
}

// errNo ends a command whose answer is no. There is nothing more to say.
var errNo = errors.New("no")

// errReported ends a command that went on after errors it has reported.
var errReported = errors.New("there were errors")

// run is the whole program: it runs the command in args and gives the exit
// status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitYes
	case errors.Is(err, errNo):
		return exitNo
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "mmapfilter: interrupted")
	case errors.Is(err, errReported):
	default:
		fmt.Fprintf(stderr, "mmapfilter: %v\n", err)
	}
	return exitError
}

const rootHelp = `Usage: mmapfilter COMMAND

A filter is a file that says of a key "certainly absent" or "maybe present".
It is mapped into memory, so opening one takes no time however large it is.

  build   make a filter from the keys in files or on standard input
  check   print the keys that may be in a filter, or that are not
  info    describe a filter
  size    say how large a filter for so many keys would be
  verify  look for damage in a filter
  demo    build a filter from the Go source tree and measure it

"mmapfilter COMMAND --help" describes a command.

Exit status: 0 yes, 1 no (check: no key selected, verify: damaged), 2 error.`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mmapfilter",
		Long:          rootHelp,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(args[0])
			}
			return cmd.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	// Help is written by hand: the flags of build and check would not fit a
	// page one a line. A test holds the text against the flags.
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		fmt.Fprintln(cmd.OutOrStdout(), cmd.Long)
	})
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(
		newBuildCommand(),
		newCheckCommand(),
		newDemoCommand(),
		newInfoCommand(),
		newSizeCommand(),
		newVerifyCommand(),
	)
	return root
}

func unknownCommand(name string) error {
	return fmt.Errorf("there is no command %q; see mmapfilter --help", name)
}

// newHelpCommand replaces the help command of cobra, which takes a name that is
// no command for none.
func newHelpCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "help", Long: "Usage: mmapfilter help COMMAND", Hidden: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return unknownCommand(strings.Join(args, " "))
		}
		return target.Help()
	}
	return cmd
}

// needFile is the Args of the commands that take a filter and nothing else.
func needFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs one filter file, not %d", cmd.Name(), len(args))
	}
	return nil
}
