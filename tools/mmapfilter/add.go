package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

const addHelp = `Insert keys into FILTER. Equal keys count separately. When add ends, even on an
error or ^C, all keys that it has inserted are durable. If it is killed, run it
again with --resume: it looks up the keys of the run that was killed, which must
all be in FILTER, and goes on after them.

` + keysHelp + `
They are read as recorded in FILTER; see check --help. FILTER may be a set. add
then opens all its shards for writing, and cannot resume.

Exit status: 0, or 2 after an error. After an error, FILTER has all keys before
the one that failed.`

// An addCommand holds the flags of add.
type addCommand struct {
	mutationFlags
	unique bool
	create bool
	make   createFlags
}

func newAddCommand() *cobra.Command {
	a := new(addCommand)
	cmd := &cobra.Command{Use: "add FILTER [FILE...]", Short: "insert keys into a filter", Long: addHelp, Args: needFiles, RunE: a.run,
		Example: "mmapfilter add --unique --create -n 100k --auto-grow seen.mmf keys"}
	cmd.Flags().BoolVar(&a.unique, "unique", false,
		"skip keys that may be in the filter already. If FILTER keeps hashes, the next rebuild adds the keys that were "+
			"skipped, and deletes wait for it (see del)")
	cmd.Flags().BoolVar(&a.create, "create", false,
		"create FILTER if it is missing, with the flags from -n to --seed-file; an existing FILTER must agree with these")
	a.make.addTo(cmd.Flags())
	a.addTo(cmd.Flags())
	return cmd
}

func (a *addCommand) run(cmd *cobra.Command, args []string) error {
	if err := a.checkCreate(args); err != nil {
		return err
	}
	kind := addRun
	if a.unique {
		kind = addUniqueRun
	}
	m, err := newMutation(cmd, &a.mutationFlags, kind, args)
	if err != nil {
		return err
	}
	return m.run(cmd.Context())
}

// checkCreate checks the flags of a new filter.
func (a *addCommand) checkCreate(args []string) error {
	if a.create && len(args) > 0 && isSet(args[0]) {
		return &fileError{args[0], errors.New("a set, which add cannot create; omit --create")}
	}
	if a.create {
		a.mutationFlags.create = &a.make
		return a.make.options(a.format)
	}
	for _, name := range createFlagNames {
		if a.make.flags.Changed(name) {
			return fmt.Errorf("--%s needs --create", name)
		}
	}
	return nil
}

// A presence counts keys that may have been in a filter or a set before they were added.
type presence struct {
	total  uint64
	found  []bool              // which keys of a batch may have been there before the batch
	before map[string]struct{} // the keys of the batch that were added
}

// ask looks up a batch of keys before they are added.
func (p *presence) ask(in answering, keys [][]byte) {
	if len(p.found) < len(keys) {
		p.found = make([]bool, max(len(keys), blockKeys))
	}
	in.ContainsBatch(keys, p.found)
}

// count counts the keys that ask found or that equal an earlier key of the batch.
func (p *presence) count(keys [][]byte) {
	if p.before == nil {
		p.before = make(map[string]struct{}, blockKeys)
	}
	clear(p.before)
	for i, key := range keys {
		added := len(p.before)
		if p.before[string(key)] = struct{}{}; p.found[i] || len(p.before) == added {
			p.total++
		}
	}
}

const delHelp = `Delete keys from FILTER, each as many times as it is given. If a key was never
added, but the filter answers "maybe" for it, deleting it may delete another
key, which is then answered "certainly not" (rule C6). If the filter answers
"certainly not" for a key, nothing is deleted, and del warns of it.

If FILTER keeps hashes, the next rebuild gives back a key that was deleted by
mistake. grow makes a rebuild, and so does a filter that grows by itself. After
add --unique or uniq has skipped a key, deletes wait for the next rebuild: until
then the answer for a deleted key stays "maybe". info says how many wait.

After an add, --resume begins at the first key. After a del, it does not compare
the keys deleted since the last sync, except for the very first: it does not
notice if they differ or if another program has deleted some of them.

` + keysHelp + `
They are read as recorded in FILTER; see check --help. FILTER may be a set, as
in add.

Exit status: 0 if all keys were deleted, 1 if some were certainly not in the
filter, 2 after an error.`

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
