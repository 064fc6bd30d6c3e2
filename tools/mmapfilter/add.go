package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const addHelp = `Usage: mmapfilter add FILTER [FILE...]

Put keys into the filter; equal ones count each. When add ends, also by an
error or ^C, what it has added is durable; if it is killed, --resume goes on.

      --unique         leave out keys that may be in the filter already
      --sync-every N   have keys durable on the disk after every N (65536)
      --log-bytes S    size of the log: a larger one is faster (it grows up to a
                       sixteenth of the filter)
      --resume         go on where a run with the same FILEs has ended early, if
                       nothing else has changed it; no key is added twice
  -v, --verbose        say how many keys were added

` + keysHelp + `
      --plain           forget what the filter records of this

Keys are read as the filter records it; see check --help.

Exit status: 0, or 2 after an error. All keys before it are in the filter.`

// An addCommand is the flags of add.
type addCommand struct {
	mutationFlags
	unique bool
}

func newAddCommand() *cobra.Command {
	a := new(addCommand)
	cmd := &cobra.Command{Use: "add", Long: addHelp, Args: cobra.ArbitraryArgs, RunE: a.run}
	cmd.Flags().BoolVar(&a.unique, "unique", false, "leave out what may be there")
	a.addTo(cmd.Flags())
	return cmd
}

func (a *addCommand) run(cmd *cobra.Command, args []string) error {
	m, err := newMutation(cmd, &a.mutationFlags, args)
	if err != nil {
		return err
	}
	m.doing = "adding"
	m.apply = m.filter.InsertBatch
	var left uint64
	if a.unique {
		m.apply = func(keys [][]byte) (int, error) {
			for i, key := range keys {
				added, err := m.filter.InsertUnique(key)
				if err != nil {
					return i, err
				}
				if !added {
					left++
				}
			}
			return len(keys), nil
		}
	}
	err = m.run(cmd.Context())
	what := formatNumber(m.done-m.skip-left, "key", "keys") + " added"
	if a.unique {
		what += fmt.Sprintf(", %s left out", formatCount(left))
	}
	m.report(cmd.ErrOrStderr(), what)
	return err
}
