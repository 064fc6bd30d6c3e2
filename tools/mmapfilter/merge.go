package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const mergeHelp = `Usage: mmapfilter merge -o OUT FILTER...

Make one filter with the keys of up to 64 others, from the hashes that these
keep (see create --keep-hashes). They stay as they are. An existing OUT, which
may be one of them, is replaced once the new filter is complete; until then, and
if merge is interrupted, it stays as it is.

  -o, --output OUT      write the new filter to OUT
  -n, --capacity N      size for N keys: 10M, 2.5B, 1e9 (as many as there are)
  -p, --rate P          share of absent keys that may be answered "maybe" (the
                        lowest rate that was asked for in a FILTER)
  -f, --fingerprint-bits N, -b, --bucket-size N, --layout L
                        choose these by hand (see size); -f replaces -p
      --distinct        store equal keys once (count every copy)
      --drop-hashes     do not keep the hashes of the keys of OUT (keep them)
` + workHelp + `  -q, --quiet           print no summary and show no progress

The filters must have been made with the same seed: build has a fixed one,
create and uniq choose one at random unless they are given one. OUT records how
keys are read as the first filter does.

Example: mmapfilter merge -o week.mmf monday.mmf tuesday.mmf`

// A mergeCommand holds the flags of merge.
type mergeCommand struct {
	output string
	opts   mmapfilter.Options
	drop   bool
	quiet  bool
}

func newMergeCommand() *cobra.Command {
	m := new(mergeCommand)
	cmd := &cobra.Command{Use: "merge", Long: mergeHelp, Args: cobra.ArbitraryArgs, RunE: m.run}
	flags := cmd.Flags()
	flags.StringVarP(&m.output, "output", "o", "", "filter to write")
	addPlanFlags(flags, &m.opts)
	flags.IntVarP(&m.opts.FingerprintBits, "fingerprint-bits", "f", 0, "bits in a fingerprint")
	flags.BoolVar(&m.opts.Distinct, "distinct", false, "store equal keys once")
	flags.BoolVar(&m.drop, "drop-hashes", false, "do not keep hashes")
	addWorkFlags(flags, &m.opts.MemoryBudget, &m.opts.Workers)
	flags.BoolVarP(&m.quiet, "quiet", "q", false, "print no summary")
	return cmd
}

func (m *mergeCommand) run(cmd *cobra.Command, inputs []string) error {
	if m.output == "" {
		return errors.New("merge needs -o OUT")
	}
	if len(inputs) == 0 {
		return errors.New("merge needs filter files")
	}
	if err := checkPlanFlags(cmd.Flags()); err != nil {
		return err
	}
	if err := sameKeys(inputs); err != nil {
		return err
	}
	m.opts.KeepHashes = !m.drop
	bar := new(progress)
	if !m.quiet {
		bar = newProgress(cmd.ErrOrStderr())
	}
	defer bar.close()
	m.opts.Progress = bar.ofBuild(new(sources))
	err := mmapfilter.Merge(cmd.Context(), m.output, &m.opts, inputs...)
	bar.close()
	if err != nil {
		return &unchanged{m.output, m.explain(err, inputs)}
	}
	filter, err := mmapfilter.OpenReadOnly(m.output, nil)
	if err != nil {
		return err
	}
	defer filter.Close()
	warnOfBuilt(cmd.ErrOrStderr(), m.output, &m.opts, filter)
	if m.quiet {
		return nil
	}
	return summarise(cmd.OutOrStdout(), m.output, filter, 0)
}

// sameKeys checks that all filters can be opened and make keys in the same way.
func sameKeys(inputs []string) error {
	var first string // note
	for i, path := range inputs {
		filter, err := mmapfilter.OpenReadOnly(path, nil)
		if err != nil {
			return &aboutError{path, err}
		}
		note := filter.Normalisation()
		if err := filter.Close(); err != nil {
			return &aboutError{path, err}
		}
		if i == 0 {
			first = note
		} else if !sameNotes(first, note) {
			return &fileError{path, fmt.Errorf("its keys are read as: %s; those of %s as: %s; the same key would not be found in both",
				describeNote(note), inputs[0], describeNote(first))}
		}
	}
	return nil
}

// sameNotes reports whether two notes make the same key of the same text, whichever part of a file
// that is. Notes of other programs must be equal.
func sameNotes(a, b string) bool {
	if a == b {
		return true
	}
	f, errF := parseNote(a)
	g, errG := parseNote(b)
	return errF == nil && errG == nil && f.hex == g.hex && f.trimCR == g.trimCR
}

// explain says which input an error is about, and which flag made the new filter too small.
func (m *mergeCommand) explain(err error, inputs []string) error {
	for _, path := range inputs {
		if !strings.Contains(err.Error(), "read "+path+": ") {
			continue
		}
		if errors.Is(err, mmapfilter.ErrOtherSeed) { // no error reveals a seed
			return &fileError{path, fmt.Errorf("was made with another seed than %s; make filters that are to be merged with the same --seed", inputs[0])}
		}
		return &aboutError{path, err}
	}
	switch {
	case !errors.Is(err, mmapfilter.ErrFull):
		return err
	case m.opts.Capacity != 0:
		return fmt.Errorf("the keys do not fit -n %s; omit -n to size for them", formatCount(m.opts.Capacity))
	case !m.opts.Distinct:
		return errors.New("the keys do not fit, since some have too many copies; give --distinct to store equal keys once")
	}
	return err
}
