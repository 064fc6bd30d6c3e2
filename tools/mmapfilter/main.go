package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx := untilSignal(context.Background())
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if status == exitError {
		endBySignal(ctx)
	}
	os.Exit(status)
}

// run runs the command in args and returns the exit status of the program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	out := &standardOutput{Writer: stdout}
	stderr = &messageWriter{stderr}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	addCompletionCommand(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.err
	}
	status := exitError
	if own := new(statusError); errors.As(err, &own) {
		err, status = own.error, own.status
	}
	switch {
	case err == nil:
		return exitYes
	case errors.Is(err, errNo):
		return exitNo
	case errors.Is(err, syscall.EPIPE):
		return exitPipe
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "mmapfilter: interrupted"+leftBy(err))
	case errors.Is(err, errReported):
	default:
		fmt.Fprintln(stderr, "mmapfilter:", explain(cmd, err))
	}
	return status
}

const rootHelp = `Usage: mmapfilter COMMAND

A filter is a file that answers "is this key in the set?" with "certainly not"
or "maybe". It is mapped into memory, so a filter of any size opens at once.

  build       build a filter from the keys in files or on standard input
  create      create an empty filter
  add         insert keys into a filter
  del         delete keys from a filter
  check       print the keys that may be in a filter, or that are not
  uniq        print each line the first time it occurs
  grow        make a filter larger, or smaller, without its keys
  merge       make one filter of several, without their keys
  expire      delete the old keys of a filter
  install     verify a filter and put it in the place of another
  info        describe a filter
  set         build a set of filters, for more keys than a file should hold
  size        show how large a filter for a number of keys would be
  verify      check a filter for damage
  recover     recover a filter whose writer has died
  repair      build a damaged filter again, without its keys
  checkpoint  merge the log of a filter into the filter file
  dump        print the raw parts of a filter file, for debugging
  demo        build a filter from the Go source tree and measure it
  man         print the manual, or write its pages to a directory
  completion  print a completion script for bash, zsh, fish or powershell

"mmapfilter COMMAND --help" describes a command; --version prints the version.
To enable completion in bash: source <(mmapfilter completion bash)

Exit status: 0 yes, 1 no (check: no key was selected; del: a key was not in the
filter; verify: the filter is damaged), 2 error.`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mmapfilter",
		Short:         "filter files that answer certainly not or maybe",
		Long:          rootHelp,
		Version:       version(debug.ReadBuildInfo()),
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("mmapfilter {{.Version}}\n")
	// Help is written by hand, because the flags of build and check, one to a line, would not
	// fit a page. A test compares the text with the flags.
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		fmt.Fprintln(cmd.OutOrStdout(), cmd.Long)
	})
	root.SetFlagErrorFunc(flagMistake)
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd.HasParent() && !strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) && slices.Contains(args, "") {
			return errors.New("a file name is empty")
		}
		if cmd.HasParent() && subject(cmd) == "-" && cmd.Name() != "partition" { // which has only keys
			return errStandard
		}
		return nil
	}
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(
		newAddCommand(),
		newBuildCommand(),
		newCheckCommand(),
		newCheckpointCommand(),
		newCreateCommand(),
		newDelCommand(),
		newDemoCommand(),
		newDumpCommand(),
		newExpireCommand(),
		newGrowCommand(),
		newInfoCommand(),
		newInstallCommand(),
		newManCommand(),
		newMergeCommand(),
		newRecoverCommand(),
		newRepairCommand(),
		newSetCommand(),
		newSizeCommand(),
		newUniqCommand(),
		newVerifyCommand(),
	)
	finish(root)
	return root
}

// finish sets what all commands below parent have in common.
func finish(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		cmd.Short = summary(parent.Long, cmd.Name())
		addCompletion(cmd)
		finish(cmd)
	}
}

// summary returns the line about a command in the help of its parent.
func summary(help, name string) string {
	_, rest, _ := strings.Cut(help, "\n  "+name+" ")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// newHelpCommand replaces cobra's help command, which does not fail for an unknown command.
func newHelpCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "help", Long: "Usage: mmapfilter help COMMAND", Hidden: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return unknownCommand(cmd.Root(), strings.Join(args, " "))
		}
		return target.Help()
	}
	return cmd
}
