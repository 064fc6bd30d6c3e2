package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const delHelp = `Usage: mmapfilter del FILTER [FILE...]

Take keys out of the filter, each as many times as it is given. Deleting a
key that was never added, where the filter says "maybe" of it, may take away
another key, which is then answered "certainly absent" (rule C6).

      --sync-every N   have deletes durable on the disk after every N (65536)
      --log-bytes S    size of the log, see add
      --resume         go on where a run with the same FILEs has ended early, if
                       nothing else has changed it; none is deleted twice
  -v, --verbose        say how many keys were deleted

` + keysHelp + `
      --plain           forget what the filter records of this

Keys are read as the filter records it; see check --help.

Exit status: 0 if all were deleted, 1 if some were certainly not in the filter,
2 after an error.`

func newDelCommand() *cobra.Command {
	d := new(mutationFlags)
	cmd := &cobra.Command{Use: "del", Long: delHelp, Args: cobra.ArbitraryArgs}
	d.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runDel(cmd, d, args) }
	return cmd
}

func runDel(cmd *cobra.Command, flags *mutationFlags, args []string) error {
	m, err := newMutation(cmd, flags, args)
	if err != nil {
		return err
	}
	m.doing = "deleting"
	var absent uint64
	m.apply = func(keys [][]byte) (int, error) {
		for i, key := range keys {
			deleted, err := m.filter.Delete(key)
			if err != nil {
				return i, err
			}
			if !deleted {
				absent++
			}
		}
		return len(keys), nil
	}
	err = m.run(cmd.Context())
	what := formatNumber(m.done-m.skip-absent, "key", "keys") + " deleted"
	if absent > 0 {
		what += fmt.Sprintf(", %s certainly not there", formatCount(absent))
	}
	m.report(cmd.ErrOrStderr(), what)
	if err == nil && absent > 0 {
		return errNo
	}
	return err
}
