package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const applyHelp = `Make the changes that "mmapfilter changes" has written to REPLICA, and print the
position to which they lead. The changes come from CHANGES or, if that is "-" or
missing, from standard input. REPLICA is a copy, from "mmapfilter snapshot", of
a filter that keeps the hashes of its keys. It must be at the position where the
changes begin. Programs may look keys up in it meanwhile.

Each change is made once: changes that REPLICA already has do nothing. If apply
is interrupted, the next apply, with any changes, first completes the
interrupted ones. Changes that are cut off or damaged, or begin after the
position of REPLICA, do nothing. If REPLICA is full, or has keys of its own,
take a new snapshot.`

func newApplyCommand() *cobra.Command {
	var quiet quiet
	cmd := &cobra.Command{Use: "apply REPLICA [CHANGES]", Short: "make the changes of a filter to a copy of it", Long: applyHelp, Args: takes(1, 2, "a filter file, and one file of changes at most"),
		Example: "mmapfilter changes users.mmf --for copy.mmf | mmapfilter apply copy.mmf"}
	quiet.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, in := "standard input", cmd.InOrStdin()
		if len(args) == 2 && args[1] != "-" {
			f, err := os.Open(args[1])
			if err != nil {
				return &fileError{args[1], err}
			}
			defer f.Close()
			name, in = args[1], f
		} else {
			in = interruptible(cmd.Context(), source{stdin: in})
		}
		filter, err := mmapfilter.Open(args[0], &mmapfilter.OpenOptions{Checked: true})
		if err != nil {
			return &aboutError{args[0], err}
		}
		at, err := apply(cmd, filter, args[0], name, in)
		if err := errors.Join(err, filter.Close()); err != nil {
			return err
		}
		_, err = fmt.Fprintln(quiet.out(cmd), "position", at)
		return err
	}
	return cmd
}

// apply applies the changes. An error says which of the two files it is about.
func apply(cmd *cobra.Command, filter *mmapfilter.Filter, path, changes string, in io.Reader) (mmapfilter.Position, error) {
	at, err := filter.Apply(cmd.Context(), in)
	if op := new(mmapfilter.OpError); errors.As(err, &op) {
		err = op.Err
	}
	switch {
	case err == nil:
		return at, nil
	case errors.Is(err, mmapfilter.ErrCorrupt) && !errors.As(err, new(*mmapfilter.CorruptError)):
		return at, &fileError{changes, err}
	case cmd.Context().Err() != nil:
		return at, &cutOff{"some changes may have been made; run it again to make the rest", err}
	}
	return at, &fileError{path, err}
}
