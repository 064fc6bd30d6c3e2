// Package measure implements the commands of bench that measure what filters ask of a machine:
// memory shared by processes, pages read, and what lookups wait for. Its figures come from the
// kernel wherever the kernel keeps them.
package measure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
	"github.com/mmapfilter/mmapfilter/tools/internal/shortrun"
)

// Child runs this program as a child that a command has started, with args[0] as its first
// argument, and returns its exit status. ok is false if the arguments are not those of a child.
func Child(args []string, stdin io.Reader, stdout io.Writer) (code int, ok bool) {
	if len(args) == 0 || args[0] != childCommand {
		return 0, false
	}
	return runChild(stdin, stdout), true
}

// Has reports whether there is a command with that name.
func Has(name string) bool { return commands()[name] != nil }

func commands() map[string]func() command {
	return map[string]func() command{
		"share":     newShare,
		"residency": newResidency,
		"cold":      newCold,
		"beside":    newBeside,
	}
}

const usage = "bench share, residency, cold or beside, and its flags"

// Run runs a command with its flags and returns the exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := runCommand(ctx, args, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errExceeded):
		fmt.Fprintln(stderr, "bench:", err)
		return exitExceeded
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	fmt.Fprintln(stderr, "bench:", err)
	return exitError
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 0 {
		return errors.New(usage)
	}
	name := args[0]
	make, ok := commands()[name]
	if !ok {
		return fmt.Errorf("there is no command %q: %s", name, usage)
	}
	cmd := make()
	s := &session{ctx: ctx, out: stdout, notes: stderr, bytes: 1 << 30}
	s.flags = flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	s.flags.SetOutput(stderr)
	s.flags.StringVar(&s.parent, "dir", os.TempDir(), "directory for the files it builds; on a disk, where that matters")
	s.flags.Var(&s.bytes, "bytes", "size of the filter it builds")
	s.flags.BoolVar(&s.short, "short", false, "small and quick: to see that it works, not what it measures")
	cmd.flags(s)
	if err := shortrun.Parse(s.flags, args[1:], &s.short, cmd.short); err != nil {
		return err
	}
	if s.parent, err = filepath.Abs(s.parent); err != nil {
		return err
	}
	if s.temp, err = os.MkdirTemp(s.parent, "mmapfilter-measure-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.temp)) }()
	s.printf("%s", machine.This().Head("go -C tools/bench run . "+machine.ShellWords(args), s.temp))
	return cmd.run(s)
}
