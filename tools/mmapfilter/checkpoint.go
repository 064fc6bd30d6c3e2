package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const checkpointHelp = `Merge the log of the filter into the filter file, so that this one file can be
copied. If the writer of the filter has died, recover the filter first.

Exit status: 0, or 2 after an error, for example if a writer is running.`

func newCheckpointCommand() *cobra.Command {
	var seal bool
	cmd := &cobra.Command{Use: "checkpoint FILTER", Short: "merge the log of a filter into the filter file", Long: checkpointHelp, Args: needFile}
	cmd.Flags().BoolVar(&seal, "seal", false, "add checksums of every byte, so that verify finds any change; the next change to the filter removes them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := mmapfilter.Open(args[0], nil)
		if err != nil {
			return err
		}
		if seal {
			err = filter.Seal(cmd.Context())
		}
		return errors.Join(err, filter.Close())
	}
	return cmd
}
