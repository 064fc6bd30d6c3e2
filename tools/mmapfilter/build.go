package main

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const buildHelp = `Usage: mmapfilter build -o FILE [KEYS...]

Make a filter from keys. FILE, if there is one, is replaced when the new one is
whole. How keys were read is recorded in it, for check to do the same.

  -o, --output FILE   the filter
  -n, --capacity N    size for N keys: 10M, 2.5B, 1e9 (as many as there are)
  -p, --rate P        share of absent keys that may be answered "maybe" (0.01)
  -f, --fingerprint-bits N, --layout NAME  what else would follow from the rate
      --seed N        seed of the hash, a secret where strangers choose keys
      --memory SIZE   for hashes, such as 8GiB; more go to a file (256MiB)
      --workers N     how many processors to use (all)
      --multiset      count every copy of a key, not one
  -q, --quiet         print no summary

` + keysHelp + `

Example: mmapfilter build -p 0.001 --hex --delim : --field 1 -o sha1.mmf sha1.gz`

// A buildCommand is the flags of build.
type buildCommand struct {
	output   string
	opts     mmapfilter.Options
	format   *formatFlags
	multiset bool
	quiet    bool
}

func newBuildCommand() *cobra.Command {
	b := new(buildCommand)
	cmd := &cobra.Command{Use: "build", Long: buildHelp, Args: cobra.ArbitraryArgs, RunE: b.run}
	flags := cmd.Flags()
	flags.StringVarP(&b.output, "output", "o", "", "the filter")
	addPlanFlags(flags, &b.opts)
	flags.Uint64Var(&b.opts.Seed, "seed", 0, "seed of the hash")
	flags.Func("memory", "bytes for hashes", func(text string) (err error) {
		b.opts.MemoryBudget, err = parseSize(text)
		return err
	})
	flags.IntVar(&b.opts.Workers, "workers", 0, "processors to use")
	flags.BoolVar(&b.multiset, "multiset", false, "count every copy")
	flags.BoolVarP(&b.quiet, "quiet", "q", false, "print no summary")
	b.format = addFormatFlags(flags)
	return cmd
}

func (b *buildCommand) run(cmd *cobra.Command, names []string) error {
	if b.output == "" {
		return errors.New("build needs -o FILE")
	}
	var in input
	var err error
	if in.format, err = b.format.format(format{}); err != nil {
		return err
	}
	if err := in.format.checkNote(); err != nil {
		return err
	}
	if in.sources, err = findSources(names, cmd.InOrStdin()); err != nil {
		return err
	}
	if err := in.sources.excludes(b.output); err != nil {
		return err
	}
	b.opts.Normalisation = in.format.note()
	b.opts.Distinct = !b.multiset

	bar := newProgress(cmd.ErrOrStderr())
	defer bar.close()
	b.opts.Progress = bar.ofBuild(in.sources)
	keys := &counter{keys: in.keys(cmd.Context())}
	filter, err := mmapfilter.Build(cmd.Context(), b.output, &b.opts, keys.all)
	bar.close()
	if err != nil {
		return flagError(err)
	}
	defer filter.Close()
	if b.quiet {
		return nil
	}
	return b.summarise(cmd.OutOrStdout(), filter, keys.n)
}

// A counter counts keys as they go by.
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

// summarise prints the one line that tells what has been made. The rate is
// what the plan says for as many keys as the filter was sized for.
func (b *buildCommand) summarise(w io.Writer, filter *mmapfilter.Filter, read uint64) error {
	opts, stats := b.opts, filter.Stats()
	opts.Capacity = stats.Cap
	plan, err := opts.Plan()
	if err != nil {
		return err
	}
	repeated := ""
	if n := read - stats.Len; n > 0 {
		repeated = fmt.Sprintf(" (%s repeated)", formatCount(n))
	}
	_, err = fmt.Fprintf(w, "%s: %s keys%s, %s bytes, %.2f bits per key, predicted rate %s\n",
		b.output, formatCount(stats.Len), repeated, formatCount(stats.FileBytes), stats.BitsPerKey, formatRate(plan.PredictedRate))
	return err
}

// ofBuild gives the function that shows how a build goes on. While it does not
// know how many keys there are, the bytes read of the sources say more.
func (p *progress) ofBuild(s *sources) func(stage string, done, total uint64) {
	if p.out == nil {
		return nil
	}
	return func(stage string, done, total uint64) {
		if total == 0 && s.bytes > 0 {
			p.show(stage, s.read.Load(), s.bytes, nil)
			return
		}
		p.show(stage, int64(done), int64(total), formatCount[int64])
	}
}
