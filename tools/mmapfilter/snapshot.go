package main

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const snapshotHelp = `Write a copy of FILTER to COPY, complete and with checksums. Programs may have
FILTER open meanwhile, also for writing; they do not wait. The copy has
everything that was committed when it was made. If FILTER keeps the hashes of
its keys, the copy is built from them, as of the last checkpoint, and snapshot
prints the position; two copies at one position are equal. With --hashes the
copy keeps the hashes too, in COPY.hashes, and grows if FILTER does.

Once the copy is complete, it replaces an existing COPY; until then, and if
snapshot is interrupted, COPY stays as it is. If COPY is not a filter, snapshot
fails and leaves it alone.

If FILTER is a set, NAME.set, COPY is a set too, with its shards beside it.`

func newSnapshotCommand() *cobra.Command {
	var quiet quiet
	var output string
	var hashes bool
	cmd := &cobra.Command{Use: "snapshot FILTER -o COPY", Short: "copy a filter while programs use it", Long: snapshotHelp, Args: needFile,
		Example: "mmapfilter snapshot users.mmf -o copy.mmf"}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the copy to `COPY`")
	cmd.Flags().BoolVar(&hashes, "hashes", false, "copy the kept hashes too")
	quiet.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needFlags(cmd, "output"); err != nil {
			return err
		}
		switch {
		case output == "-":
			return errStandard
		case same(args[0], output):
			return &fileError{output, errors.New("it is the file to be copied")}
		case isSet(args[0]) && hashes:
			return &fileError{args[0], errors.New("a set, which keeps no hashes")}
		case isSet(args[0]):
			return snapshotSet(cmd, args[0], output, quiet)
		case isSet(output):
			return &fileError{output, errors.New("a set; choose another name")}
		}
		filter, err := mmapfilter.OpenReadOnly(args[0], nil)
		if err != nil {
			return &aboutError{args[0], err}
		}
		defer filter.Close()
		snapshot := filter.Snapshot
		if hashes {
			snapshot = filter.SnapshotWithHashes
		}
		at, err := snapshot(cmd.Context(), output)
		for _, source := range []error{mmapfilter.ErrCorrupt, mmapfilter.ErrNeedsRecovery, mmapfilter.ErrNoHashes, mmapfilter.ErrBusy, mmapfilter.ErrReplaced} {
			if errors.Is(err, source) {
				return &aboutError{args[0], err}
			}
		}
		if err != nil {
			return unchanged(output, err)
		}
		copied, err := mmapfilter.OpenReadOnly(output, nil)
		if err != nil {
			return err
		}
		if err := quiet.summarise(cmd, output, copied, 0); err != nil || at.IsZero() {
			return err
		}
		_, err = fmt.Fprintln(quiet.out(cmd), "position", at)
		return err
	}
	return cmd
}

func snapshotSet(cmd *cobra.Command, path, output string, quiet quiet) error {
	if err := checkSetOutput(output); err != nil {
		return err
	}
	set, err := sets.Open(path, nil)
	if err != nil {
		return &aboutError{path, err}
	}
	defer set.Close()
	if err := set.Snapshot(cmd.Context(), output); err != nil {
		return unchanged(output, err)
	}
	copied, err := sets.Open(output, nil)
	if err != nil {
		return err
	}
	defer copied.Close()
	_, err = fmt.Fprintf(quiet.out(cmd), "%s: %s in %s\n", printable(output),
		formatNumber(copied.Len(), "key", "keys"), formatNumber(uint64(copied.Shards()), "shard", "shards"))
	return err
}
