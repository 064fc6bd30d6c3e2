package main

import (
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// wear says that deletes wear out the layout of a filter, and why it has no other. It returns "" for
// a layout that lasts.
func wear(opts *mmapfilter.Options, has mmapfilter.Layout) string {
	if !layout.Wears(has) {
		return ""
	}
	why := "compact, which lasts, does not reach this rate"
	switch f, b := opts.FingerprintBits, opts.BucketSize; {
	case f != 0 && b != 0:
		why = fmt.Sprintf("compact, which lasts, has no f=%d with b=%d", f, b)
	case f != 0:
		why = fmt.Sprintf("compact, which lasts, has no f=%d", f)
	case b != 0:
		why = fmt.Sprintf("compact, which lasts, has no b=%d", b)
	}
	if opts.Layout != mmapfilter.Auto {
		free := *opts
		free.Layout = mmapfilter.Auto
		if p, err := free.Plan(); err == nil && !layout.Wears(p.Layout) {
			why = fmt.Sprintf("the default, %s, lasts", p.Layout)
		}
	}
	return fmt.Sprintf("deletes wear out layout %s; %s", has, why)
}

// warnOfWear warns of the layout of a new filter, if it wears out.
func warnOfWear(stderr io.Writer, path string, opts *mmapfilter.Options, has mmapfilter.Layout) {
	if worn := wear(opts, has); worn != "" {
		fmt.Fprintf(stderr, "mmapfilter: %s: %s\n", path, worn)
	}
}

// wearOf is wear for a filter that is open for writing. If the filter keeps its hashes, it also says
// how to change the layout to one that lasts.
func wearOf(path string, filter *mmapfilter.Filter) string {
	s := filter.Stats()
	opts := mmapfilter.Options{Capacity: max(s.Cap, s.Len, 1), FalsePositiveRate: s.TargetRate, Layout: s.Layout}
	text := wear(&opts, s.Layout)
	if text == "" || !canGrow(filter) {
		return text
	}
	rate := ""
	if opts.Layout = mmapfilter.Compact; opts.Validate() != nil {
		rate = fmt.Sprintf(" -p %g", lastingRate)
	}
	return fmt.Sprintf("%s; to change that, run: mmapfilter grow -n %d%s --layout %s %s", text, opts.Capacity, rate, opts.Layout, path)
}

// lastingRate is about the lowest rate of any layout that deletes do not wear out.
const lastingRate = 5e-6
