package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const checkHelp = `Print the keys that may be in the filter: all keys that are in it, and a few
that are not. check writes nothing to the filter, except with --recover.

FILTER may be a set, NAME.set. If a shard cannot be used, any of its keys may be
in it: check prints them, names the shard, and exits with 2.

` + urlHelp + `

` + keysHelp + `
They are read as recorded in FILTER (see info). --hex and --trim-cr override
one recorded setting each; every other flag replaces all recorded settings but
these two. With --record-size, nothing is printed between keys.

Exit status: 0 if any key is printed, 1 if none is, 2 after an error.`

// A checkCommand holds the flags of check.
type checkCommand struct {
	invert, count, quiet, number, record, json, follow, recover bool

	opening mmapfilter.OpenOptions
	format  *formatFlags
	plain   bool
}

func newCheckCommand() *cobra.Command {
	c := &checkCommand{opening: mmapfilter.OpenOptions{Checked: true}} // checks cost little, since keys are looked up in batches
	cmd := &cobra.Command{Use: "check FILTER [FILE...]", Short: "print the keys that may be in a filter, or that are not", Long: checkHelp, Args: needFiles, RunE: c.run}
	flags := cmd.Flags()
	flags.BoolVarP(&c.invert, "invert-match", "v", false, "select the keys that are certainly not in the filter")
	flags.BoolVarP(&c.count, "count", "c", false, "print only how many keys are selected")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "print nothing and stop at the first key selected")
	flags.BoolVarP(&c.number, "line-number", "n", false, "print the number of the record before each key; in CSV, the line number")
	flags.BoolVar(&c.record, "record", false, "print whole records, not only their keys")
	flags.BoolVar(&c.json, "json", false, `print objects like {"line":1,"key":"k","present":true}`)
	flags.BoolVar(&c.follow, "follow", false, "switch to the new file if FILTER is replaced")
	flags.BoolVar(&c.opening.WaitForFile, "wait-for-file", false, "with --follow, wait for FILTER to appear; until then every key may be in it")
	flags.BoolVar(&c.opening.ServeUnrecovered, "unrecovered", false, "use a filter whose writer has died without recovering it: every key may be in it")
	addRecoverFlag(flags, &c.recover)
	addResidencyFlag(flags, &c.opening)
	c.format = addFormatFlags(flags)
	addPlainFlag(flags, &c.plain)
	return cmd
}

func (c *checkCommand) run(cmd *cobra.Command, args []string) error {
	if c.json && c.count {
		return errors.New("--json and -c cannot be used together")
	}
	if c.opening.WaitForFile && !c.follow {
		return errors.New("--wait-for-file needs --follow")
	}
	if c.recover && c.opening.ServeUnrecovered {
		return errors.New("--recover and --unrecovered cannot be used together")
	}
	c.opening.NoRecover = !c.recover
	path, names := args[0], args[1:]
	sources, err := c.format.sources(names, cmd.InOrStdin())
	if err != nil {
		return err
	}
	s := &selection{checkCommand: c, path: path, in: &input{sources: sources, whole: c.record}}
	if err := s.open(cmd); err != nil {
		return err
	}
	defer s.close()
	if c.number && !c.json && !c.count && !c.quiet && s.in.format.recordSize != 0 {
		return errors.New("-n and --record-size cannot be used together, since nothing ends a record; use --json for the numbers")
	}
	s.bar = c.progress(sources, cmd.OutOrStdout(), cmd.ErrOrStderr())
	defer s.bar.close()
	s.say = func(text string) {
		s.bar.hide()
		fmt.Fprintln(cmd.ErrOrStderr(), "mmapfilter:", text)
	}
	s.report = func(err error) {
		s.say(explain(cmd, explainMisfit(err, s.in.format, s.recorded, path)))
		s.reported = true
	}
	err = s.run(cmd.Context(), cmd.OutOrStdout())
	s.in.warn(cmd.ErrOrStderr())
	return err
}

// progress returns a bar. It shows nothing if the size of the sources is unknown, as with typed
// keys, or if the keys are printed on the terminal of the bar.
func (c *checkCommand) progress(s *sources, stdout, stderr io.Writer) *progress {
	if c.quiet || s.bytes == 0 || isTerminal(stdout) && !c.count {
		return new(progress)
	}
	return newProgress(stderr)
}

// A selection is a run of check. It looks up keys in a filter, many at a time, and prints the
// selected ones in the order of the input.
type selection struct {
	*checkCommand
	path     string
	target   // where keys are looked up
	in       *input
	out      *bufio.Writer
	objects  *json.Encoder // writes to out
	bar      *progress
	say      func(string) // writes to standard error
	report   func(error)  // reports that a source could not be read completely
	reported bool
	headed   bool // the header has been printed
	selected uint64
	err      error // the first error of a lookup or of the output

	block block
	found []bool
}

// A target is where a selection looks up keys: a filter, which with --follow is the newest file,
// or a set.
type target struct {
	filter   *mmapfilter.Filter   // nil with --follow, and for a set
	follower *mmapfilter.Follower // nil without --follow, and for a set
	set      *sets.Set            // nil for a filter
	refused  error                // why the follower or the set did not switch to a new file
	told     bool                 // the user knows that all answers are "maybe"
	limited  bool                 // some shards of the set answer only "maybe"
	shards   map[string]bool      // errors of shards that have been reported

	note     string // the note of the filter, by which keys are made from the input
	recorded format // the format in that note; zero with --plain
}

// An answering is a filter or a set.
type answering interface {
	ContainsBatch(keys [][]byte, found []bool)
	Normalisation() string
	Err() error
}

// answers returns the filter or set in which keys are looked up now.
func (t *target) answers() answering {
	switch {
	case t.set != nil:
		return t.set
	case t.follower != nil:
		return t.follower.Filter()
	}
	return t.filter
}

func (t *target) close() error {
	switch {
	case t.set != nil:
		return t.set.Close()
	case t.follower != nil:
		return t.follower.Close()
	}
	return t.filter.Close()
}

// fail keeps the first error, unless the outcome is already known.
func (s *selection) fail(err error) {
	if s.err == nil && !s.done() {
		s.err = err
	}
}

// done reports whether no further key can change the outcome.
func (s *selection) done() bool { return s.quiet && s.selected > 0 }

func (s *selection) flush() {
	s.fail(s.out.Flush())
}

// reportShards reports the shards of a set that cannot be used.
func (s *selection) reportShards() {
	if s.set == nil || s.set.Err() == nil {
		return
	}
	for _, shard := range s.set.ShardStats() {
		if e := new(sets.ShardError); errors.As(shard.Err, &e) {
			s.reportShard(e)
		}
	}
}

// reportShard reports once that a shard answers only "maybe". If the flags allow such answers, it
// prints a message instead of reporting an error.
func (s *selection) reportShard(e *sets.ShardError) {
	text := e.Error()
	if s.shards[text] {
		return
	}
	if s.shards == nil {
		s.shards = make(map[string]bool)
	}
	s.shards[text] = true
	if s.opening.ServeUnrecovered && errors.Is(e, mmapfilter.ErrNeedsRecovery) {
		s.say(fmt.Sprintf("%s: the writer of shard %d has died, and the shard has not been recovered: any of its keys may be in the set", s.path, e.Shard))
		return
	}
	s.limited = true
	s.report(e)
}
