package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const setHelp = `Build a set: a manifest, NAME.set, and the filter files that it names, its
shards. Each key belongs to one shard. check, info, verify, add and del take
NAME.set where they take a filter. On one machine, build --shards makes a set.
On many machines, or with an engine such as make, Slurm, Kubernetes or Spark,
use the tasks below. They share PLAN, a directory of spools and a directory of
shards.

A task may be killed, done again, or run twice at the same time: the files that
it leaves have the same bytes. They contain only the hashes of keys, not keys.`

const setExample = `mmapfilter set plan -n 2B -p 0.001 --shards 64 -o users.plan
  mmapfilter set partition --plan users.plan --task a --spool spool a.gz
  mmapfilter set partition --plan users.plan --task b --spool spool b.gz
  mmapfilter set build --plan users.plan --shard 0-63 --spool spool --out .
  mmapfilter set assemble --plan users.plan --spool spool --out . -o users.set`

func newSetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "set COMMAND", Short: "build a set of filters, for more keys than a file should hold", Long: setHelp,
		Args: cobra.ArbitraryArgs, Example: setExample}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q of set; %s", args[0], suggest(cmd, args[0], "set ", "mmapfilter set --help lists them"))
		}
		return cmd.Help()
	}
	cmd.AddCommand(newSetPlanCommand(), newSetPartitionCommand(), newSetBuildCommand(), newSetAssembleCommand(), newSetGCCommand())
	return cmd
}

// A taskFlags holds the flags that tasks share.
type taskFlags struct {
	plan, spool, out string
	quiet            quiet
}

// addTo adds the flags. Only some tasks write shards.
func (f *taskFlags) addTo(flags *pflag.FlagSet, shards bool) {
	flags.StringVar(&f.plan, "plan", "", "follow `PLAN`, the plan of the set")
	flags.StringVar(&f.spool, "spool", "", "directory `DIR` of the spools, the same for all tasks")
	if shards {
		flags.StringVar(&f.out, "out", "", "directory `DIR` of the shards")
	}
	f.quiet.addTo(flags)
}

// readPlan checks that the flags that a task needs are set, and reads the plan.
func (f *taskFlags) readPlan(cmd *cobra.Command, needed ...string) (*sets.Plan, error) {
	if err := needFlags(cmd, needed...); err != nil {
		return nil, err
	}
	p, err := sets.ReadPlan(f.plan)
	return p, ofTask(err)
}

// ofTask puts an error of a task into the words of the command. The error must name its file, since
// a task has many files.
func ofTask(err error) error {
	var (
		version  *mmapfilter.VersionError
		file     *sets.FileError
		complete *mmapfilter.CompleteError
	)
	switch {
	case err == nil || errors.As(err, &complete):
		return err
	case errors.As(err, &file):
		return &fileError{file.Path, errors.New(file.Reason)}
	case errors.As(err, &version):
		return fmt.Errorf("%v; use a newer mmapfilter", err)
	}
	return withPath(err)
}

// summariseSet prints a line that describes a new set.
func summariseSet(w io.Writer, path string, s *sets.Summary) error {
	return summariseShards(w, fmt.Sprintf("%s: %s, ", printable(path), formatNumber(s.Shards, "shard", "shards")), s)
}

// summariseShards prints a line that describes new shards. The line begins with what.
func summariseShards(w io.Writer, what string, s *sets.Summary) error {
	repeated := ""
	if s.Duplicates > 0 {
		repeated = fmt.Sprintf(" (%s repeated)", formatCount(s.Duplicates))
	}
	bits := 0.0
	if s.Keys > 0 {
		bits = float64(s.Bytes) * 8 / float64(s.Keys)
	}
	_, err := fmt.Fprintf(w, "%s%s read, %s%s, %s bytes, %.2f bits per key\n", what,
		formatNumber(s.Read, "key", "keys"), formatNumber(s.Keys, "key", "keys"), repeated, formatCount(s.Bytes), bits)
	return err
}

// warnOfSet says that a set has more keys than it was sized for.
func warnOfSet(stderr io.Writer, path string, p *sets.Plan, s *sets.Summary) {
	if p.Keys > 0 {
		warnOfMany(stderr, path, s.Keys, p.Keys)
	}
}

// manifestSuffix ends the name of every manifest, because set gc keeps the shards that such files
// name.
const manifestSuffix = ".set"

// checkSetOutput reports a name that a manifest cannot have, or that another file has.
func checkSetOutput(path string) error {
	if !strings.HasSuffix(path, manifestSuffix) {
		return fmt.Errorf("-o %s must end in %s, because set gc keeps the shards that such files name", path, manifestSuffix)
	}
	if set, err := sets.IsSet(path); err == nil && !set {
		return &fileError{path, errors.New("not a set; remove it or choose another name")}
	}
	return nil
}
