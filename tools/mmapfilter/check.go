package main

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const checkHelp = `Usage: mmapfilter check FILE [KEYS...]

Print the keys that may be in the filter FILE: all that are, and a few that are
not. Exit status: 0 if some are printed, 1 if none, 2 after an error.

  -v, --invert-match   select the keys that are certainly not in the filter
  -c, --count          print only how many keys are selected
  -q, --quiet          print nothing and stop at the first key selected
  -n, --number         print the number of the record before a key (CSV: line)
      --json           print objects like {"line":1,"key":"k","present":true}
      --residency R    default, random, willneed, populate, lock or heap
      --checked        report a fault in the file, instead of dying of it

` + keysHelp + `
      --plain              forget what the filter records of this

Keys are read as build recorded it (see info). Of these flags, --hex and
--trim-cr change just that; any other replaces the recorded rest of them.`

// A checkCommand is the flags of check.
type checkCommand struct {
	invert, count, quiet, number, json bool

	open   mmapfilter.OpenOptions
	format *formatFlags
	plain  bool
}

func newCheckCommand() *cobra.Command {
	c := new(checkCommand)
	cmd := &cobra.Command{Use: "check", Long: checkHelp, Args: cobra.ArbitraryArgs, RunE: c.run}
	flags := cmd.Flags()
	flags.BoolVarP(&c.invert, "invert-match", "v", false, "select absent keys")
	flags.BoolVarP(&c.count, "count", "c", false, "print a count")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "print nothing")
	flags.BoolVarP(&c.number, "number", "n", false, "print record numbers")
	flags.BoolVar(&c.json, "json", false, "print JSON")
	flags.BoolVar(&c.plain, "plain", false, "forget what is recorded")
	addOpenFlags(flags, &c.open)
	c.format = addFormatFlags(flags)
	return cmd
}

func (c *checkCommand) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("check needs a filter file")
	}
	if c.json && c.count {
		return errors.New("--json and -c cannot stand together")
	}
	path, names := args[0], args[1:]
	sources, err := findSources(names, cmd.InOrStdin())
	if err != nil {
		return err
	}
	filter, err := openFilter(path, &c.open, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer filter.Close()
	in := &input{sources: sources}
	if in.format, err = c.keyFormat(path, filter); err != nil {
		return err
	}
	s := newSelection(c, filter, in, cmd.OutOrStdout())
	if err := s.run(cmd.Context()); err != nil {
		return err
	}
	if s.selected == 0 {
		return errNo
	}
	return nil
}

// keyFormat is what the filter records and the flags say.
func (c *checkCommand) keyFormat(path string, filter *mmapfilter.Filter) (format, error) {
	var recorded format
	if !c.plain {
		var err error
		if recorded, err = parseNote(filter.Normalisation()); err != nil {
			return format{}, fmt.Errorf("%s: %w; with --plain, keys are read as the other flags say", path, err)
		}
	}
	return c.format.format(recorded)
}
