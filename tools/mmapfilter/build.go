package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const buildHelp = `Build a filter from the keys in files. Once the new filter is complete, it
replaces an existing FILTER. Programs that have the old one open then answer
"maybe" for every key until they open FILTER again. build also replaces an empty
file, but any other file only with --force, and a device never. The filter
records how its keys were read, so that check reads them the same way.

` + keysHelp + `
A byte order mark is part of the first key, except in CSV.`

// A buildCommand holds the flags of build.
type buildCommand struct {
	output   string
	shards   int
	opts     mmapfilter.Options
	seed     *seedFlags
	format   *formatFlags
	replace  replaceFlags
	multiset bool
	quiet    quiet
}

func newBuildCommand() *cobra.Command {
	b := new(buildCommand)
	cmd := &cobra.Command{Use: "build -o FILTER [FILE...]", Short: "build a filter from the keys in files or on standard input",
		Long: buildHelp, Args: cobra.ArbitraryArgs, RunE: b.run,
		Example: "mmapfilter build -p 0.001 --hex -d : --field 1 -o sha1.mmf sha1.gz"}
	flags := cmd.Flags()
	flags.StringVarP(&b.output, "output", "o", "", "write the filter to `FILTER`")
	addSharedF(flags)
	addPlanFlags(flags, &b.opts, sizeForKeys+" (as many as there are)", "0.01", "")
	flags.IntVar(&b.shards, "shards", 0, "make a set of `S` filters, NAME.set; see set")
	b.seed = addSeedFlags(flags, "0")
	addKeepFlag(flags, &b.opts)
	b.replace.addTo(flags)
	addForceFlag(flags, &b.opts)
	addWorkFlags(flags, &b.opts.MemoryBudget, &b.opts.Workers)
	flags.BoolVar(&b.multiset, "multiset", false, "store every copy of a key, not only one")
	b.quiet.addTo(flags)
	b.format = addFormatFlags(flags)
	return cmd
}

func (b *buildCommand) run(cmd *cobra.Command, names []string) error {
	err := needFlags(cmd, "output")
	if err == nil {
		err = cmp.Or(b.checkOutput(cmd), resolveF(cmd.Flags()), checkPlanFlags(cmd.Flags()))
	}
	if err != nil {
		return err
	}
	if b.opts.Seed, _, err = b.seed.seed(); err != nil {
		return err
	}
	how, err := newFormat(b.format)
	if err != nil {
		return err
	}
	in, err := b.format.input(names, cmd.InOrStdin())
	if err != nil {
		return err
	}
	in.format = how
	if err := in.sources.excludes(b.output); err != nil {
		return err
	}
	b.opts.Normalisation = in.format.note()
	b.opts.Distinct = !b.multiset

	b.opts.MinKeys = b.replace.least(b.output)
	bar := b.quiet.progress(cmd)
	defer bar.close()
	b.opts.Progress = bar.ofBuild("", in.sources)
	keys := &counter{keys: in.keys(cmd.Context())}
	if cmd.Flags().Changed("shards") {
		err := b.runSet(cmd, keys, bar)
		in.warn(cmd.ErrOrStderr())
		return err
	}
	filter, err := mmapfilter.Build(cmd.Context(), b.output, &b.opts, keys.all)
	bar.close()
	in.warn(cmd.ErrOrStderr())
	if err != nil {
		return b.replace.explain(b.output, b.explainFull(err, keys.n))
	}
	return b.quiet.summarise(cmd, b.output, filter, keys.n-filter.Len())
}

// checkOutput returns an error if a filter would replace a set, or a set a filter.
func (b *buildCommand) checkOutput(cmd *cobra.Command) error {
	if cmd.Flags().Changed("shards") {
		if b.opts.Overwrite {
			return errors.New("--force cannot be used with --shards; remove the file that is in the way")
		}
		if b.opts.KeepHashes {
			return errors.New("--shards and --keep-hashes cannot be used together, since a set keeps no hashes")
		}
		return checkSetOutput(b.output)
	}
	if isSet(b.output) && !b.opts.Overwrite {
		return &fileError{b.output, errors.New("a set; give --shards to build it again, or choose another name")}
	}
	return nil
}

// runSet builds a set.
func (b *buildCommand) runSet(cmd *cobra.Command, keys *counter, bar *progress) error {
	opts := b.opts
	opts.MinKeys = 0 // sets.Work has it instead
	p, err := sets.NewPlan(&opts, b.shards)
	if err != nil {
		return err
	}
	work := sets.Work{MemoryBudget: b.opts.MemoryBudget, Workers: b.opts.Workers, Progress: b.opts.Progress, MinKeys: b.opts.MinKeys}
	s, err := sets.Build(cmd.Context(), b.output, p, work, keys.all)
	bar.close()
	if err != nil {
		return ofTask(b.replace.explain(b.output, b.explainFull(err, keys.n)))
	}
	warnOfSet(cmd.ErrOrStderr(), b.output, p, s)
	return summariseSet(b.quiet.out(cmd), b.output, s)
}

// explainFull says which flag made a filter too full.
func (b *buildCommand) explainFull(err error, keys uint64) error {
	switch {
	case !errors.Is(err, mmapfilter.ErrFull):
		return err
	case b.opts.Capacity != 0:
		return fmt.Errorf("%s do not fit -n %s; omit -n to size for the input", formatNumber(keys, "key", "keys"), formatCount(b.opts.Capacity))
	case b.multiset: // only copies can fill a filter that was sized for its keys
		return fmt.Errorf("%s do not fit, since some have too many copies; omit --multiset to store equal keys once", formatNumber(keys, "key", "keys"))
	}
	return err
}

// A counter counts the keys that pass through.
type counter struct {
	keys iter.Seq2[[]byte, error]
	n    uint64
}

func (c *counter) all(yield func([]byte, error) bool) {
	for key, err := range c.keys {
		if err == nil {
			c.n++
		}
		if !yield(key, err) {
			return
		}
	}
}

// summarise closes a new filter, warns if the filter is not what was asked for, and prints a line
// that describes it. copies is the number of repeated keys that the build left out. The rate in the
// line is an estimate for the keys in the filter.
func (q quiet) summarise(cmd *cobra.Command, path string, filter *mmapfilter.Filter, copies uint64) error {
	defer filter.Close()
	stats := filter.Stats()
	for line := range strings.Lines(stats.Warning) {
		fmt.Fprintf(cmd.ErrOrStderr(), "mmapfilter: %s: %s\n", path, strings.TrimSpace(line))
	}
	warnOfMany(cmd.ErrOrStderr(), path, stats.Len, filter.Cap())
	repeated := ""
	if copies > 0 {
		repeated = fmt.Sprintf(" (%s repeated)", formatCount(copies))
	}
	_, err := fmt.Fprintf(q.out(cmd), "%s: %s%s, %s bytes, %.2f bits per key, estimated rate %s\n",
		printable(path), formatNumber(stats.Len, "key", "keys"), repeated, formatCount(stats.FileBytes), stats.BitsPerKey, formatRate(stats.EstimatedRate))
	return err
}

// ofBuild returns the function that shows the progress of a build. The bar begins with the text
// what. As long as the build does not know the number of keys, it shows the bytes read from the
// sources instead.
func (p *progress) ofBuild(what string, s *sources) func(stage string, done, total uint64) {
	if p.terminal == nil {
		return nil
	}
	return func(stage string, done, total uint64) {
		if total == 0 && s.bytes > 0 {
			p.show(what+stage, s.read.Load(), s.bytes, nil)
			return
		}
		p.show(what+stage, int64(done), int64(total), formatCount[int64])
	}
}
