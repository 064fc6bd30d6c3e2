package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const setPartitionHelp = `Hash the keys in files, and spool the hashes by shard. DIR/ID.spool has the
hashes, 8 bytes a key; DIR/ID.task says that the task is done. Together, the
tasks must read every key of the set. partition creates DIR if it is missing.

` + keysHelp + `
They are read the way PLAN says; a flag that differs from PLAN is an error.

If a task is done again, it must read the same keys in the same order. To give
it other keys, remove DIR/ID.task first, and build all shards again.`

func newSetPartitionCommand() *cobra.Command {
	var f taskFlags
	var task, mark string
	cmd := &cobra.Command{Use: "partition --plan PLAN --task ID --spool DIR [FILE...]", Args: cobra.ArbitraryArgs,
		Short: "hash keys and spool the hashes by shard; one task for each part", Long: setPartitionHelp,
		Example: "mmapfilter set partition --plan users.plan --task 7 --spool spool 7.gz"}
	flags := cmd.Flags()
	f.addTo(flags, false)
	flags.StringVar(&task, "task", "", "name `ID` of the task: letters, digits, and . _ - within it")
	flags.StringVar(&mark, "end-mark", "",
		"standard input must end with the record `S`, which is no key; if S is missing, the writer has died, and the task fails")
	format := addFormatFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		p, err := f.readPlan(cmd, "plan", "task", "spool")
		if err != nil {
			return err
		}
		planned, err := plannedFormat(f.plan, p, format)
		if err != nil {
			return err
		}
		in, err := format.input(names, cmd.InOrStdin())
		if err != nil {
			return err
		}
		in.format, in.mark = planned, mark
		if mark != "" && (len(names) > 0 || cmd.Flags().Changed("key")) {
			return errors.New("--end-mark is for standard input, and cannot be used with files or -e")
		}
		if err := os.MkdirAll(f.spool, 0o777); err != nil {
			return ofTask(err)
		}
		bar := f.quiet.progress(cmd)
		defer bar.close()
		start := time.Now()
		r, err := sets.Partition(cmd.Context(), p, f.spool, task, in.keys(cmd.Context()), func(done uint64) {
			if s := in.sources; s.bytes > 0 {
				bar.show("hash", s.read.Load(), s.bytes, nil)
				return
			}
			bar.show("hash", int64(done), 0, func(n int64) string { return formatSpeed(n, time.Since(start)) })
		})
		bar.close()
		in.warn(cmd.ErrOrStderr())
		if err != nil {
			return ofTask(err)
		}
		_, err = fmt.Fprintf(f.quiet.out(cmd), "task %s: %s read, spool of %s bytes\n", r.Task, formatNumber(r.Keys, "key", "keys"), formatCount(r.Bytes))
		return err
	}
	return cmd
}

// plannedFormat returns the format of keys in a plan. The flags must not ask for another one.
func plannedFormat(path string, p *sets.Plan, flags *formatFlags) (format, error) {
	planned, err := parseNote(p.Normalisation)
	if err != nil {
		return format{}, &fileError{path, err}
	}
	asked, err := flags.format(planned)
	if err == nil && asked != planned {
		err = &fileError{path, fmt.Errorf("the plan says that keys are read as: %s; the flags say: %s", describeNote(p.Normalisation), describeNote(asked.note()))}
	}
	return planned, err
}
