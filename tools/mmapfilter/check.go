package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const checkHelp = `Print the keys that may be in the filter: all that are, and a few that are not.
check writes nothing to the filter, unless it is told to --recover it.

FILTER may be a set, NAME.set. Keys of a shard that cannot be used may be in it;
check goes on, names the shard, and exits with 2.

` + urlHelp + `

` + keysHelp + `
They are read as the filter records (see info). --hex and --trim-cr override one
setting each; each other flag replaces all recorded settings except these two.
Keys of a --record-size are printed without anything between them.

Exit status: 0 if any are printed, 1 if none, 2 after an error.`

func newCheckCommand() *cobra.Command {
	c := &checkCommand{opening: mmapfilter.OpenOptions{Checked: true}} // it looks up batches, where that costs little
	cmd := &cobra.Command{Use: "check FILTER [FILE...]", Short: "print the keys that may be in a filter, or that are not", Long: checkHelp, Args: needFiles, RunE: c.run}
	flags := cmd.Flags()
	flags.BoolVarP(&c.invert, "invert-match", "v", false, "select the keys that are certainly not in the filter")
	flags.BoolVarP(&c.count, "count", "c", false, "print only how many keys are selected")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "print nothing and stop at the first key selected")
	flags.BoolVarP(&c.number, "line-number", "n", false, "print the number of the record first; in CSV, of the line")
	flags.BoolVar(&c.record, "record", false, "print whole records, not only their keys")
	flags.BoolVar(&c.json, "json", false, `print objects like {"line":1,"key":"k","present":true}`)
	flags.BoolVar(&c.follow, "follow", false, "switch to the new file if FILTER is replaced")
	flags.BoolVar(&c.opening.WaitForFile, "wait-for-file", false, "with --follow, wait for FILTER to appear; until then any key may be in it")
	flags.BoolVar(&c.opening.ServeUnrecovered, "unrecovered", false, "use a filter whose writer has died as it is: any key may be in it")
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

// progress shows nothing if the size of the sources is unknown, as with typed keys, or if the
// keys are printed on the terminal of the bar.
func (c *checkCommand) progress(s *sources, stdout, stderr io.Writer) *progress {
	if c.quiet || s.bytes == 0 || isTerminal(stdout) && !c.count {
		return new(progress)
	}
	return newProgress(stderr)
}
