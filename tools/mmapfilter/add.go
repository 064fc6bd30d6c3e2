package main

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const addHelp = `Usage: mmapfilter add FILTER [FILE...]

Insert keys into FILTER. Equal keys count separately. What add has inserted is
durable when it ends, even on an error or ^C; if it is killed, use --resume.

      --unique         skip keys that may be in the filter already. If FILTER
                       keeps hashes, each rebuild has all keys; deletes wait for
                       one, once keys have been left out (see del)
      --create         create FILTER if it is missing, with these flags (see
                       create), which a FILTER that is there must not contradict
  -n, --capacity N, -p, --rate P, --fingerprint-bits N, -b, --bucket-size N,
      --layout L, --keep-hashes, --auto-grow, --like FILE, --seed N,
      --seed-file FILE
      --sync-every N   make keys durable after every N (65536)
      --log-bytes S    size of the log; a larger log is faster
      --resume         compare the input with the keys of the last add, which
                       must all be in FILTER, and add the keys after them. If
                       that add completed and the first key differs, add all
                       keys. Fail if something else has changed FILTER
  -v, --verbose        print how many keys were added, and how many of them may
                       have been there before

` + keysHelp + `
      --plain           ignore the settings that the filter records

Keys are read as the filter records; see check --help. FILTER may be a set: add
opens all its shards for writing, and cannot resume.

Exit status: 0, or 2 after an error. Then the keys before it are in FILTER.

Example: mmapfilter add --unique --create -n 100k --auto-grow seen.mmf keys`

// An addCommand holds the flags of add.
type addCommand struct {
	mutationFlags
	unique bool
	create bool
	make   createFlags
}

func newAddCommand() *cobra.Command {
	a := new(addCommand)
	cmd := &cobra.Command{Use: "add", Long: addHelp, Args: cobra.ArbitraryArgs, RunE: a.run}
	cmd.Flags().BoolVar(&a.unique, "unique", false, "skip keys that may be there")
	cmd.Flags().BoolVar(&a.create, "create", false, "create the filter if it is missing")
	a.make.addTo(cmd.Flags())
	cmd.Flags().IntVar(&a.make.opts.FingerprintBits, "fingerprint-bits", 0, "bits in a fingerprint")
	a.addTo(cmd.Flags())
	return cmd
}

func (a *addCommand) run(cmd *cobra.Command, args []string) error {
	if err := a.checkCreate(args); err != nil {
		return err
	}
	if ofSet(args) {
		kind := addRun
		if a.unique {
			kind = addUniqueRun
		}
		return runSetMutation(cmd, &a.mutationFlags, kind, args)
	}
	run, err := a.newAddition(cmd, args)
	if err != nil {
		return err
	}
	err = run.run(cmd.Context())
	run.report(run.summary())
	return err
}

// checkCreate checks the flags of a new filter.
func (a *addCommand) checkCreate(args []string) error {
	if a.create && ofSet(args) {
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

// An addition is a run of add.
type addition struct {
	*mutation
	unique  bool
	added   []bool   // which keys of a batch were added, with --unique
	skipped uint64   // keys not added, with --unique
	was     presence // of the keys added, without --unique and with --verbose
}

func (a *addCommand) newAddition(cmd *cobra.Command, args []string) (*addition, error) {
	kind := addRun
	if a.unique {
		kind = addUniqueRun
	}
	m, err := newMutation(cmd, &a.mutationFlags, kind, args)
	if err != nil {
		return nil, err
	}
	run := &addition{mutation: m, unique: a.unique, was: presence{filter: m.filter}}
	switch {
	case a.unique:
		m.apply = run.addUnique
	case a.verbose:
		m.apply = run.addAndCount
	default:
		m.apply = m.filter.InsertBatch
	}
	return run, nil
}

func (a *addition) addUnique(keys [][]byte) (int, error) {
	if len(a.added) < len(keys) {
		a.added = make([]bool, max(len(keys), blockKeys))
	}
	n, err := a.filter.InsertUniqueBatch(keys, a.added)
	for _, added := range a.added[:n] {
		if !added {
			a.skipped++
		}
	}
	return n, err
}

// addAndCount is slower than InsertBatch, because it looks up each key first.
func (a *addition) addAndCount(keys [][]byte) (int, error) {
	a.was.ask(keys)
	n, err := a.filter.InsertBatch(keys)
	a.was.count(n)
	return n, err
}

func (a *addition) summary() string {
	what := formatNumber(a.done-a.skipped, "key", "keys") + " added"
	switch {
	case a.unique:
		what += fmt.Sprintf(", %s left out", formatCount(a.skipped))
	case a.was.total > 0:
		what += fmt.Sprintf(", %s of them may have been there", formatCount(a.was.total))
	}
	return what
}

// A presence counts keys that may have been in a filter before they were added.
type presence struct {
	filter *mmapfilter.Filter
	total  uint64
	hashes []uint64 // of the keys in a batch
	found  []bool
	before map[uint64]struct{} // hashes of the keys of the batch that were added
}

// ask looks up a batch of keys before they are added.
func (p *presence) ask(keys [][]byte) {
	p.hashes = p.hashes[:0]
	for _, key := range keys {
		p.hashes = append(p.hashes, p.filter.Hash(key))
	}
	if len(p.found) < len(keys) {
		p.found = make([]bool, max(len(keys), blockKeys))
	}
	p.filter.ContainsHashes(p.hashes, p.found)
}

// count counts those of the first n keys that were found, or that equal an earlier key of the
// batch.
func (p *presence) count(n int) {
	if p.before == nil {
		p.before = make(map[uint64]struct{}, blockKeys)
	}
	clear(p.before)
	for i, hash := range p.hashes[:n] {
		added := len(p.before)
		if p.before[hash] = struct{}{}; p.found[i] || len(p.before) == added {
			p.total++
		}
	}
}
