package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
	"github.com/spf13/pflag"
)

// replaceFlags holds the flags of a command that may replace a filter or a set.
type replaceFlags struct {
	allowEmpty bool
	minKeys    uint64
}

func (r *replaceFlags) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&r.allowEmpty, "allow-empty", false, "let a filter or set without keys replace one with keys")
	flags.Func("min-keys", "fail, and replace nothing, if there are fewer than `N` keys", func(text string) (err error) {
		r.minKeys, err = parseCount(text)
		return err
	})
}

// addForceFlag adds the flag that lets a new filter destroy files that it does not replace.
func addForceFlag(flags *pflag.FlagSet, opts *mmapfilter.Options) {
	flags.BoolVar(&opts.Overwrite, "force", false,
		"destroy a file that is not a filter, or the log and hashes of another filter, if they have the names that the new files need")
}

// least returns how many keys a new filter or set at a path must have: as many as the flags say or,
// without flags, one if it replaces a filter or set with keys.
func (r *replaceFlags) least(path string) uint64 {
	if r.minKeys > 0 || r.allowEmpty {
		return r.minKeys
	}
	if f, head, err := osfile.OpenFile(path); err == nil {
		f.Close()
		if head.Superblock.Length() > 0 || head.Superblock.State() == layout.Live {
			return 1
		}
	} else if info, e := os.Stat(path); e == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return 1 // the file there may have keys
	} else if set, err := sets.Open(path, nil); err == nil {
		defer set.Close()
		return min(set.Len(), 1)
	}
	return 0
}

// explain says which flag has kept a filter from being replaced.
func (r *replaceFlags) explain(path string, err error) error {
	switch {
	case !errors.Is(err, mmapfilter.ErrFewKeys):
		return err
	case r.minKeys == 0:
		return &fileError{path, errors.New("it may have keys, and would be replaced by one without keys; give --allow-empty to replace it")}
	}
	return &fileError{path, fmt.Errorf("not written: it would have fewer keys than --min-keys %s", formatCount(r.minKeys))}
}

// errStandard is returned for a filter with the name -, which elsewhere means standard input or
// output.
var errStandard = errors.New("a filter cannot be standard input or output; give ./- for a file of that name")

// warnOfMany warns if a new filter or set holds more keys than it was sized for.
func warnOfMany(stderr io.Writer, path string, keys, capacity uint64) {
	if keys > capacity {
		fmt.Fprintf(stderr, "mmapfilter: %s holds %s, more than the %s it was sized for: its rate may be above the rate asked for\n",
			path, formatNumber(keys, "key", "keys"), formatCount(capacity))
	}
}
