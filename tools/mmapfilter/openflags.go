package main

import (
	"io"
	"slices"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
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
	flags.BoolVar(recover, "recover", false, "recover the filter first if its writer has died, which is an error otherwise")
}

// openFilter opens a filter, and shows progress if opening takes long.
func openFilter(path string, opts *mmapfilter.OpenOptions, stderr io.Writer) (*mmapfilter.Filter, error) {
	bar := newProgress(stderr)
	defer bar.close()
	opts.Progress = func(done, total int64) { bar.show("reading", done, total, nil) }
	return mmapfilter.OpenReadOnly(path, opts)
}

// statsOf returns the Stats of a filter from which another one is made, or was made.
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
