package main

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const createHelp = `Create an empty filter for add and uniq. FILTER must not exist. It records how
add, check and other commands read keys.`

// createFlags holds the flags that describe a new filter.
type createFlags struct {
	flags *pflag.FlagSet
	opts  mmapfilter.Options
	seed  *seedFlags
	like  string

	seeded bool // the flags name a seed; set by the method options
}

// createFlagNames are the names of the flags that addTo adds.
var createFlagNames = []string{"capacity", "rate", "fingerprint-bits", "bucket-size", "layout", "keep-hashes", "auto-grow", "expire-after", "like", "seed", "seed-file"}

func (c *createFlags) addTo(flags *pflag.FlagSet) {
	c.flags = flags
	addPlanFlags(flags, &c.opts, sizeForKeys+"; few more fit", "0.01", "")
	addKeepFlag(flags, &c.opts)
	flags.BoolVar(&c.opts.AutoGrow, "auto-grow", false,
		"keep hashes, and grow by itself: at 90 % of N keys, the filter is rebuilt for twice as many. It also shrinks "+
			"when keys are deleted, and is rebuilt when N/8 deletes wait (see del)")
	flags.Func("expire-after", "keep hashes, and delete each key by itself once `D`, such as 24h or 30d, at least 10s, has passed since it was "+
		"first added: never sooner, and at most 5 % later (3s, if that is more). This happens while a program has FILTER open for writing, "+
		"and when it closes FILTER", func(text string) (err error) {
		c.opts.ExpireAfter, err = parseAge(text, leastWindow)
		return err
	})
	flags.StringVar(&c.like, "like", "", "make a filter that can be merged with `FILE`: with the seed of FILE and its way to read keys. "+
		"Unless flags say otherwise, size, rate, layout, --keep-hashes, --auto-grow and --expire-after are those of FILE too")
	c.seed = addSeedFlags(flags, "random")
}

// options completes the options of the new filter, which records how its keys are read.
func (c *createFlags) options(keys *formatFlags) error {
	if err := checkPlanFlags(c.flags); err != nil {
		return err
	}
	for flag, needs := range map[string]bool{"auto-grow": c.opts.AutoGrow, "expire-after": c.opts.ExpireAfter > 0} {
		if needs && c.flags.Changed("keep-hashes") && !c.opts.KeepHashes {
			return fmt.Errorf("--%s needs hashes, but --keep-hashes=false was given", flag)
		}
	}
	seed, seeded, err := c.seed.seed()
	if err != nil {
		return err
	}
	c.opts.Seed, c.seeded = seed, seeded || c.like != ""
	recorded := format{}
	if c.like != "" {
		if seeded {
			return errors.New("--like and a seed cannot be used together, since --like takes the seed of the other filter")
		}
		if recorded, err = c.takeFrom(c.like); err != nil {
			return err
		}
	}
	if c.opts.Capacity == 0 {
		return errors.New("a new filter needs -n, the number of keys to size it for")
	}
	f, err := keys.format(recorded)
	if err != nil {
		return err
	}
	if c.like != "" && !sameNotes(f.note(), recorded.note()) {
		return &fileError{c.like, fmt.Errorf("its keys are read as: %s; omit --hex and --trim-cr, or --like", describeNote(recorded.note()))}
	}
	c.opts.Normalisation = f.note()
	return nil
}

// takeFrom takes from another filter the options that no flag sets, and returns how the keys of
// that filter are read.
func (c *createFlags) takeFrom(path string) (format, error) {
	s, err := statsOf(path, &mmapfilter.OpenOptions{NoRecover: true, ServeUnrecovered: true})
	if err != nil {
		return format{}, err
	}
	o := &c.opts
	if o.Seed = s.Seed; o.Seed == 0 {
		return format{}, &fileError{path, errors.New("it has the seed 0, which no new filter can have")}
	}
	if o.Capacity == 0 && !c.flags.Changed("capacity") {
		o.Capacity = s.Capacity
	}
	switch {
	case o.FalsePositiveRate != 0 || o.FingerprintBits != 0:
	case s.TargetRate != 0:
		o.FalsePositiveRate = s.TargetRate
	default:
		o.FingerprintBits = s.FingerprintBits
	}
	if !c.flags.Changed("layout") {
		o.Layout = s.Layout
	}
	if !c.flags.Changed("keep-hashes") {
		o.KeepHashes = s.KeepsHashes
	}
	if !c.flags.Changed("auto-grow") {
		o.AutoGrow = s.Grows && o.KeepHashes
	}
	if !c.flags.Changed("expire-after") && o.KeepHashes {
		o.ExpireAfter = s.ExpireAfter
	}
	return recordedFormat(path, s.Normalisation, false)
}

// A createCommand holds the flags of create.
type createCommand struct {
	createFlags
	format *formatFlags
}

func newCreateCommand() *cobra.Command {
	c := new(createCommand)
	cmd := &cobra.Command{Use: "create -n N FILTER", Short: "create an empty filter", Long: createHelp, Args: needFile, RunE: c.run,
		Example: "mmapfilter create -n 10M --hex -d : --field 1 sums.mmf"}
	flags := cmd.Flags()
	addSharedF(flags)
	c.addTo(flags)
	flags.BoolVar(&c.opts.Overwrite, "force", false, "destroy the log and hashes of another filter if they have the names that FILTER needs")
	c.format = addFileFormatFlags(flags)
	return cmd
}

func (c *createCommand) run(cmd *cobra.Command, args []string) error {
	if err := resolveF(cmd.Flags()); err != nil {
		return err
	}
	if err := errors.Join(c.options(c.format), checkNote(c.opts.Normalisation)); err != nil {
		return err
	}
	filter, err := mmapfilter.Create(args[0], &c.opts)
	if err != nil {
		return err
	}
	return filter.Close()
}

// contradicted returns an error if a flag contradicts the existing filter at a path. For a filter
// that grows it checks only the rate and the seed: growth changes the size and the layout.
func contradicted(path string, filter *mmapfilter.Filter, flags *pflag.FlagSet, want mmapfilter.Options, seeded bool) error {
	s := filter.Stats()
	for _, c := range []struct {
		flag       string
		has, asked any
	}{
		{"capacity", formatCount(s.Capacity), formatCount(want.Capacity)},
		{"rate", s.TargetRate, want.FalsePositiveRate},
		{"fingerprint-bits", s.FingerprintBits, want.FingerprintBits},
		{"bucket-size", s.BucketSize, want.BucketSize},
		{"layout", s.Layout, want.Layout},
		{"keep-hashes", s.KeepsHashes, want.KeepHashes},
		{"auto-grow", s.Grows, want.AutoGrow},
		{"expire-after", s.ExpireAfter, want.ExpireAfter},
	} {
		if flags.Changed(c.flag) && (c.flag == "rate" || !s.Grows) && c.has != c.asked && c.asked != layout.Auto {
			return &fileError{path, fmt.Errorf("was made with --%s %v, not %v; omit the flag or choose another file", c.flag, c.has, c.asked)}
		}
	}
	if seeded && s.Seed != want.Seed {
		return &fileError{path, errors.New("was made with another seed; omit the seed or choose another file")}
	}
	return nil
}
