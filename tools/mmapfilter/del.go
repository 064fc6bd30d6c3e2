package main

import "github.com/spf13/cobra"

const delHelp = `Delete keys from FILTER, each as many times as it is given. Deleting a key that
was never added, but for which the filter answers "maybe", may delete another
key, which is then answered "certainly not" (rule C6). If some of the keys were
certainly not there, del warns of that.

If FILTER keeps hashes, the next rebuild gives that key back: grow makes one,
and so does a filter that grows by itself. Once add --unique or uniq has left
keys out, deletes wait for the next rebuild: until then the answer for a deleted
key stays "maybe". info says how many wait.

After an add, --resume begins at the first key. Keys since the last sync are not
compared, except the very first: del does not notice if they differ or if
another program deleted some of them.

` + keysHelp + `
They are read as the filter records; see check --help. FILTER may be a set, as
in add.

Exit status: 0 if all were deleted, 1 if some were certainly not in the filter,
2 after an error.`

func newDelCommand() *cobra.Command {
	d := new(mutationFlags)
	cmd := &cobra.Command{Use: "del FILTER [FILE...]", Short: "delete keys from a filter", Long: delHelp, Args: needFiles}
	d.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := newMutation(cmd, d, delRun, args)
		if err != nil {
			return err
		}
		return m.run(cmd.Context())
	}
	return cmd
}
