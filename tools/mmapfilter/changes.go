package main

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
	"github.com/spf13/cobra"
)

const changesHelp = `Write how the keys of FILTER have changed since POSITION. FILTER must keep their
hashes. "mmapfilter apply" makes the same changes to a copy, from "mmapfilter
snapshot", that is at POSITION. The changes go to CHANGES, or to standard
output. They reach up to the last checkpoint of FILTER, which programs may use
meanwhile.

With --for, the changes fit REPLICA and other copies of its size only, and take
a half or a third of the bytes. Without --since, they begin where REPLICA is.

A position stays usable until FILTER is rebuilt, for example when it grows, and
after that for the time given to "mmapfilter create --keep-changes". When it is
no longer usable, take a snapshot.`

// changesBegin is the beginning of every file of changes.
const changesBegin = "MMAPFCHG"

type changesCommand struct {
	since           mmapfilter.Position
	replica, output string
	quiet           quiet
}

func newChangesCommand() *cobra.Command {
	c := new(changesCommand)
	cmd := &cobra.Command{Use: "changes FILTER --since POSITION|--for REPLICA", Short: "write how the keys of a filter have changed", Long: changesHelp, Args: needFile,
		Example: "mmapfilter changes users.mmf --for copy.mmf -o today.changes", RunE: c.run}
	flags := cmd.Flags()
	flags.Func("since", "`POSITION` as printed by snapshot, changes or apply", func(text string) error {
		if c.since.UnmarshalText([]byte(text)) != nil {
			return demand("must be a position, as snapshot prints it")
		}
		return nil
	})
	flags.StringVar(&c.replica, "for", "", "write changes for the copy `REPLICA`")
	flags.StringVarP(&c.output, "output", "o", "", "write the changes to `CHANGES`")
	c.quiet.addTo(flags)
	return cmd
}

func (c *changesCommand) run(cmd *cobra.Command, args []string) error {
	var classes mmapfilter.Classes
	if c.replica != "" {
		replica, err := mmapfilter.OpenReadOnly(c.replica, nil)
		if err != nil {
			return &aboutError{c.replica, err}
		}
		classes = replica.Classes()
		if !cmd.Flags().Changed("since") {
			c.since = replica.Position()
		}
		if err := replica.Close(); err != nil {
			return &aboutError{c.replica, err}
		}
	} else if !cmd.Flags().Changed("since") {
		return errors.New("changes needs --since POSITION or --for REPLICA")
	}
	filter, err := mmapfilter.OpenReadOnly(args[0], nil)
	if err != nil {
		return &aboutError{args[0], err}
	}
	defer filter.Close()
	if c.output == "" {
		_, err := filter.ChangesFor(cmd.Context(), cmd.OutOrStdout(), c.since, classes)
		return ofFilter(args[0], err)
	}
	out, err := osfile.NewOutput(c.output, changesBegin)
	if err != nil {
		return unchanged(c.output, err)
	}
	at, err := filter.ChangesFor(cmd.Context(), out, c.since, classes)
	if err != nil {
		return unchanged(c.output, errors.Join(ofFilter(args[0], err), out.Discard()))
	}
	if err := out.Publish(); err != nil {
		return unchanged(c.output, err)
	}
	_, err = fmt.Fprintln(c.quiet.out(cmd), "position", at)
	return err
}

// ofFilter adds to an error the path of the filter that it is about.
func ofFilter(path string, err error) error {
	if err == nil {
		return nil
	}
	return &aboutError{path, err}
}
