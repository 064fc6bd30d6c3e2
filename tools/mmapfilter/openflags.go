package main

import (
	"slices"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addResidencyFlag adds the flag that says where to keep a filter.
func addResidencyFlag(flags *pflag.FlagSet, opts *mmapfilter.OpenOptions) {
	flags.Func("residency", "where to keep the filter, `R`: "+strings.Join(residencies(), ", "), func(text string) error {
		r := slices.Index(residencies(), text)
		if r < 0 {
			return demand("must be one of " + strings.Join(residencies(), ", "))
		}
		opts.Residency = mmapfilter.Residency(r)
		return nil
	})
}

func residencies() (names []string) {
	for r := mmapfilter.ResidencyDefault; (&mmapfilter.OpenOptions{Residency: r}).Validate() == nil; r++ {
		names = append(names, r.String())
	}
	return names
}

// addRecoverFlag adds the flag that makes a reading command recover a filter.
func addRecoverFlag(flags *pflag.FlagSet, recover *bool) {
	flags.BoolVar(recover, "recover", false, "if the writer of the filter has died, recover it first instead of failing")
}

// openFilter opens a filter at a path or a URL, and shows progress if opening takes long. The
// parameter but names flags that must not be set with a URL.
func openFilter(cmd *cobra.Command, path string, opts *mmapfilter.OpenOptions, but ...string) (*mmapfilter.Filter, error) {
	if isURL(path) {
		return openURL(cmd.Context(), path, cmd.Flags(), but...)
	}
	bar := newProgress(cmd.ErrOrStderr())
	defer bar.close()
	opts.Progress = func(done, total int64) { bar.show("reading", done, total, nil) }
	return mmapfilter.OpenReadOnly(path, opts)
}

// openSet is openFilter for a set.
func openSet(cmd *cobra.Command, path string, opts *mmapfilter.OpenOptions, but ...string) (*sets.Set, error) {
	if isURL(path) {
		return openSetURL(cmd.Context(), path, cmd.Flags(), but...)
	}
	return sets.Open(path, opts)
}

// statsOf opens the filter at a path, and returns its Stats.
func statsOf(path string, opts *mmapfilter.OpenOptions) (mmapfilter.Stats, error) {
	filter, err := mmapfilter.OpenReadOnly(path, opts)
	if err != nil {
		return mmapfilter.Stats{}, &aboutError{path, err}
	}
	s := filter.Stats()
	if err := filter.Close(); err != nil {
		return s, &aboutError{path, err}
	}
	return s, nil
}
