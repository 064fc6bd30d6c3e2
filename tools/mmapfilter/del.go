package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const delHelp = `Usage: mmapfilter del FILTER [FILE...]

Delete keys from FILTER, each as many times as it is given. Deleting a key that
was never added, but for which the filter answers "maybe", may delete another
key, which is then answered "certainly not" (rule C6). If some of the keys were
certainly not there, del warns of that.

If FILTER keeps hashes, the next rebuild gives that key back: grow makes one,
and so does a filter that grows by itself. Once add --unique or uniq has left
keys out, deletes wait for the next rebuild: until then the answer for a deleted
key stays "maybe". info says how many wait.

      --sync-every N   make deletes durable after every N (65536)
      --log-bytes S    size of the log; see add
      --resume         as in add, for the keys of the last del; after an add,
                       start at the first key. Keys since the last sync are not
                       compared, except the very first: del does not notice if
                       they differ or if another program deleted some of them
  -v, --verbose        print how many keys were deleted

` + keysHelp + `
      --plain           ignore the settings that the filter records

Keys are read as the filter records; see check --help. FILTER may be a set, as
in add.
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
	if ofSet(args) {
		return runSetMutation(cmd, flags, delRun, args)
	}
	run, err := newDeletion(cmd, flags, args)
	if err != nil {
		return err
	}
	run.keeps = run.filter.Stats().KeepsHashes
	err = run.run(cmd.Context())
	run.report(run.summary())
	if run.absent > 0 && run.done > run.absent {
		fmt.Fprintf(run.stderr, "mmapfilter: %s: %s\n", run.path, strayWarning(run.keeps))
	}
	if err == nil && run.absent > 0 {
		return errNo
	}
	return err
}

// A deletion is a run of del.
type deletion struct {
	*mutation
	absent uint64 // keys that were certainly not in the filter
	keeps  bool   // the filter keeps hashes
}

func newDeletion(cmd *cobra.Command, flags *mutationFlags, args []string) (*deletion, error) {
	m, err := newMutation(cmd, flags, delRun, args)
	if err != nil {
		return nil, err
	}
	run := &deletion{mutation: m}
	m.apply = run.delete
	return run, nil
}

func (d *deletion) delete(keys [][]byte) (int, error) {
	for i, key := range keys {
		deleted, err := d.filter.Delete(key)
		if err != nil {
			return i, err
		}
		if !deleted {
			d.absent++
		}
	}
	return len(keys), nil
}

func (d *deletion) summary() string {
	what := formatNumber(d.done-d.absent, "key", "keys") + " deleted"
	if d.absent > 0 {
		what += fmt.Sprintf(", %s certainly not there", formatCount(d.absent))
	}
	return what
}
