package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const mergeHelp = `Make one filter with the keys of up to 64 others, from the hashes that they keep
(see create --keep-hashes). The others stay as they are. Like grow, merge takes
the keys that were added to each filter and not deleted.

OUT may be one of the filters. Once the new filter is complete, it replaces an
existing OUT; until then, and if merge is interrupted, OUT stays as it is.
Programs that have the old OUT open answer "maybe" for every key once it is
replaced, until they open OUT again.

All filters must have the same seed. build uses a fixed seed; create and uniq
choose a random one unless a flag gives it; create --like takes the seed of
another filter. OUT records the same way to read keys as the first FILTER.`

// A mergeCommand holds the flags of merge.
type mergeCommand struct {
	output  string
	opts    mmapfilter.Options
	drop    bool
	replace replaceFlags
	quiet   quiet
}

func newMergeCommand() *cobra.Command {
	m := new(mergeCommand)
	cmd := &cobra.Command{Use: "merge -o OUT FILTER...", Short: "make one filter of several, without their keys", Long: mergeHelp,
		Args: needFiles, RunE: m.run, Example: "mmapfilter merge -o week.mmf monday.mmf tuesday.mmf"}
	flags := cmd.Flags()
	flags.StringVarP(&m.output, "output", "o", "", "write the new filter to `OUT`")
	addPlanFlags(flags, &m.opts, sizeForKeys+" (as many as there are)", "the lowest that was asked for in a FILTER", "f")
	flags.BoolVar(&m.opts.Distinct, "distinct", false, "store equal keys once (by default every copy is stored)")
	flags.BoolVar(&m.drop, "drop-hashes", false,
		"do not keep hashes in OUT, which then must not be one of the FILTERs (by default OUT keeps hashes, and an OUT that grew by itself still does)")
	m.replace.addTo(flags)
	addForceFlag(flags, &m.opts)
	addWorkFlags(flags, &m.opts.MemoryBudget, &m.opts.Workers)
	m.quiet.addTo(flags)
	return cmd
}

func (m *mergeCommand) run(cmd *cobra.Command, inputs []string) error {
	if err := cmp.Or(needFlags(cmd, "output"), checkPlanFlags(cmd.Flags())); err != nil {
		return err
	}
	if m.drop {
		for _, path := range inputs {
			if same(m.output, path) {
				return &fileError{m.output, errors.New("--drop-hashes cannot drop the hashes of a filter that is merged; choose another OUT")}
			}
		}
	}
	notes, err := notesOf(inputs)
	if err != nil {
		return err
	}
	other := func(note string) bool { return !sameNotes(notes[0], note) }
	m.opts.AnyNormalisation = !slices.ContainsFunc(notes, other)
	m.opts.KeepHashes, m.opts.MinKeys = !m.drop, m.replace.least(m.output)
	bar := m.quiet.progress(cmd)
	defer bar.close()
	m.opts.Progress = bar.ofBuild("", new(sources))
	err = mmapfilter.Merge(cmd.Context(), m.output, &m.opts, inputs...)
	bar.close()
	if err != nil {
		return unchanged(m.output, m.replace.explain(m.output, m.explain(err, inputs, notes)))
	}
	filter, err := mmapfilter.OpenReadOnly(m.output, nil)
	if err != nil {
		return err
	}
	return m.quiet.summarise(cmd, m.output, filter, 0)
}

// same reports whether two paths lead to the same file.
func same(a, b string) bool {
	i, err := os.Stat(a)
	j, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(i, j)
}

// notesOf returns the notes of filters on how their keys are read.
func notesOf(inputs []string) (notes []string, err error) {
	for _, path := range inputs {
		s, err := statsOf(path, nil)
		if err != nil {
			return nil, err
		}
		notes = append(notes, s.Normalisation)
	}
	return notes, nil
}

// sameNotes reports whether two notes make the same key from the same text. From which part of a
// file the text comes does not matter. Notes of other programs must be equal.
func sameNotes(a, b string) bool {
	if a == b {
		return true
	}
	f, errF := parseNote(a)
	g, errG := parseNote(b)
	return errF == nil && errG == nil && f.hex == g.hex && f.trimCR == g.trimCR
}

// explain adds to an error which input it is about, or which flag made the new filter too
// small.
func (m *mergeCommand) explain(err error, inputs, notes []string) error {
	var input *fs.PathError
	switch {
	case errors.As(err, &input) && slices.Contains(inputs, input.Path):
		if errors.Is(err, mmapfilter.ErrOtherSeed) { // no error reveals a seed
			return &fileError{input.Path, fmt.Errorf("was made with another seed than %s; to merge filters, create them with --like, or with the same --seed", inputs[0])}
		}
		if errors.Is(err, mmapfilter.ErrOtherNormalisation) {
			return &fileError{input.Path, fmt.Errorf("its keys are read as: %s; those of %s as: %s; the same key would not be found in both",
				describeNote(notes[slices.Index(inputs, input.Path)]), inputs[0], describeNote(notes[0]))}
		}
		return &aboutError{input.Path, input.Err}
	case !errors.Is(err, mmapfilter.ErrFull):
		return err
	case m.opts.Capacity != 0:
		return fmt.Errorf("the keys do not fit -n %s; omit -n to size for them", formatCount(m.opts.Capacity))
	case !m.opts.Distinct:
		return errors.New("the keys do not fit, since some have too many copies; give --distinct to store equal keys once")
	}
	return err
}
