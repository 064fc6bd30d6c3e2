package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const createHelp = `Usage: mmapfilter create -n N [-p P] FILTER

Create an empty filter for add and uniq. FILTER must not exist.

  -n, --capacity N      size for N keys: 10M, 2.5B, 1e9; little more fits
  -p, --rate P          share of absent keys that may be answered "maybe" (0.01)
  -f, --fingerprint-bits N, -b, --bucket-size N, --layout L
                        choose these by hand (see size); -f replaces -p
      --keep-hashes     keep the hash of each key in FILTER.hashes: 8 to 9 bytes
                        for each add or del. grow, merge, expire and repair need
                        them
      --auto-grow       keep hashes, and grow while keys are added: from 90 % of
                        N on, the filter is rebuilt for twice as many. It also
                        shrinks, while keys are deleted
` + createSeedHelp + `
` + createKeysHelp + `
FILTER records this.

Example: mmapfilter create -n 10M --hex -d : --field 1 sums.mmf`

// A createCommand holds the flags of create.
type createCommand struct {
	opts   mmapfilter.Options
	seed   *seedFlags
	format *formatFlags
}

func newCreateCommand() *cobra.Command {
	c := new(createCommand)
	cmd := &cobra.Command{Use: "create", Long: createHelp, Args: needFile, RunE: c.run}
	flags := cmd.Flags()
	addPlanFlags(flags, &c.opts)
	addSharedF(flags, &c.opts)
	addKeepFlag(flags, &c.opts)
	flags.BoolVar(&c.opts.AutoGrow, "auto-grow", false, "grow by itself")
	c.seed = addSeedFlags(flags)
	c.format = addFileFormatFlags(flags)
	return cmd
}

func (c *createCommand) run(cmd *cobra.Command, args []string) error {
	if err := resolveF(cmd.Flags()); err != nil {
		return err
	}
	if err := checkPlanFlags(cmd.Flags()); err != nil {
		return err
	}
	if c.opts.Capacity == 0 {
		return errors.New("create needs -n, the number of keys to size the filter for")
	}
	var err error
	if c.opts.Seed, _, err = c.seed.seed(); err != nil {
		return err
	}
	format, err := c.format.format(format{})
	if err != nil {
		return err
	}
	filter, err := createFilter(args[0], &c.opts, format)
	if err != nil {
		return err
	}
	warnOfWear(cmd.ErrOrStderr(), args[0], &c.opts, filter.Stats().Layout)
	return filter.Close()
}

// createFilter creates a filter that records how its keys are read.
func createFilter(path string, opts *mmapfilter.Options, f format) (*mmapfilter.Filter, error) {
	if err := f.checkNote(); err != nil {
		return nil, err
	}
	opts.Normalisation = f.note()
	filter, err := mmapfilter.Create(path, opts)
	return filter, err
}
