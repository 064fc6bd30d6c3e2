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

// Commands have the order in which they are added.
func init() { cobra.EnableCommandSorting = false }

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
		left := ""
		if part := new(cutOff); errors.As(err, &part) {
			left = "; " + part.left
		}
		fmt.Fprintln(stderr, "mmapfilter: interrupted"+left)
	case errors.Is(err, errReported):
	default:
		fmt.Fprintln(stderr, "mmapfilter:", explain(cmd, err))
	}
	return status
}

const rootHelp = `A filter is a file that answers "is this key in the set?" with "certainly not"
or "maybe". It is mapped into memory, so a filter of any size opens at once.

"mmapfilter COMMAND --help" describes a command; --version prints the version.
To enable completion in bash: source <(mmapfilter completion bash)

Exit status: 0 yes, 1 no (check: no key was selected; del: a key was not in the
filter; verify: the filter is damaged), 2 error. The help of a command has more.`

// helpText is the template of the help of a command.
const helpText = `Usage: {{.UseLine}}

{{.Long}}
{{if .HasAvailableSubCommands}}
{{range .Commands}}{{if .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}
{{.LocalFlags.FlagUsagesWrapped 80}}{{end}}{{if .Example}}
Example:
  {{.Example}}
{{end}}`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mmapfilter COMMAND",
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
	root.SetUsageTemplate(helpText)
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) { // cobra's help function would print the error of a write a second time
		fmt.Fprint(cmd.OutOrStdout(), cmd.UsageString())
	})
	root.DisableFlagsInUseLine = true
	root.SetFlagErrorFunc(flagMistake)
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd.HasParent() && !strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) && slices.Contains(args, "") {
			return errors.New("a file name is empty")
		}
		if cmd.HasParent() && subject(cmd) == "-" && cmd.Name() != "partition" { // partition reads only keys
			return errStandard
		}
		return nil
	}
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(newBuildCommand(), newCreateCommand(), newAddCommand(), newDelCommand(), newCheckCommand(), newUniqCommand(),
		newGrowCommand(), newMergeCommand(), newExpireCommand(), newSnapshotCommand(), newChangesCommand(), newApplyCommand(),
		newPublishCommand(), newReplicateCommand(), newInstallCommand(), newInfoCommand(), newSetCommand(),
		newSizeCommand(), newVerifyCommand(), newRecoverCommand(), newRepairCommand(), newCheckpointCommand(), newDumpCommand(),
		newServeCommand(), newDemoCommand(), newManCommand())
	finish(root)
	return root
}

// finish sets the properties that all commands below parent share.
func finish(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		cmd.DisableFlagsInUseLine = true
		cmd.Flags().SortFlags = false
		addCompletion(cmd)
		finish(cmd)
	}
}

// newHelpCommand replaces cobra's help command, which does not fail for an unknown command.
func newHelpCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "help COMMAND", Long: "Print the help of a command.", Hidden: true, DisableFlagsInUseLine: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return unknownCommand(cmd.Root(), strings.Join(args, " "))
		}
		return target.Help()
	}
	return cmd
}

// Exit statuses.
const (
	exitYes   = 0
	exitNo    = 1
	exitError = 2
	exitPipe  = 128 + 13
)

// errNo ends a command whose answer is no, without a message.
var errNo = errors.New("no")

// errReported ends a command that has reported its errors.
var errReported = errors.New("there were errors")

// A statusError is an error with its own exit status.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// version describes this program as far as the build recorded it: the version of its module, the
// revision of its source, and the version of Go.
func version(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "unknown"
	}
	words := []string{info.Main.Version}
	if words[0] == "" {
		words[0] = "(devel)"
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		if settings["vcs.modified"] == "true" {
			revision += ", modified"
		}
		words = append(words, "(revision "+revision+")")
	}
	return strings.Join(append(words, info.GoVersion), " ")
}
