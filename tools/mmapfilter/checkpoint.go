package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const checkpointHelp = `Usage: mmapfilter checkpoint [--seal] FILTER

Merge the log of the filter into the filter file, so that one file can be
copied. If its writer has died, recover the filter first.

      --seal   add checksums of every byte, so that verify finds any change; the
               next change to the filter removes them

Exit status: 0, or 2 after an error, such as a writer that is running.`

func newCheckpointCommand() *cobra.Command {
	var seal bool
	cmd := &cobra.Command{Use: "checkpoint", Long: checkpointHelp, Args: needFile}
	cmd.Flags().BoolVar(&seal, "seal", false, "compute checksums")
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
