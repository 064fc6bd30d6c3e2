package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/pflag"
)

// sizeForKeys is the help of -n, without the default.
const sizeForKeys = "size for `N` keys, such as 10M, 2.5B, 1e9"

// addPlanFlags adds the flags for the size and kind of a new filter. capacity is the help of -n,
// rate the default that the help of -p shows, and shorthand the shorthand of --fingerprint-bits, if
// any.
func addPlanFlags(flags *pflag.FlagSet, opts *mmapfilter.Options, capacity, rate, shorthand string) {
	addCapacityFlag(flags, opts, capacity)
	addRateFlag(flags, opts, rate)
	addLayoutFlag(flags, opts, "auto")
	bits := "bits `N` of a fingerprint in packed and semisorted, instead of -p"
	if flags.ShorthandLookup("f") != nil {
		bits += "; -f means the same"
	}
	flags.IntVarP(&opts.FingerprintBits, "fingerprint-bits", shorthand, 0, bits)
	flags.IntVarP(&opts.BucketSize, "bucket-size", "b", 0, "number `N` of slots in a bucket of packed or semisorted")
}

func addCapacityFlag(flags *pflag.FlagSet, opts *mmapfilter.Options, usage string) {
	flags.FuncP("capacity", "n", usage, func(text string) (err error) {
		opts.Capacity, err = parseCount(text)
		return err
	})
}

func addLayoutFlag(flags *pflag.FlagSet, opts *mmapfilter.Options, without string) {
	flags.Func("layout", "layout `L`: "+layoutNames()+"; packed and semisorted are the tables of the paper, to compare with ("+without+")", func(text string) error {
		kind, ok := layout.ParseKind(text)
		if !ok {
			return demand("must be one of " + layoutNames())
		}
		opts.Layout = kind
		return nil
	})
}

// addSharedF adds -f with two meanings: with -d and without --field, the number of a field, as in
// cut(1); otherwise the bits of a fingerprint. The meaning is known only after all flags have been
// parsed; then resolveF sets the flag.
func addSharedF(flags *pflag.FlagSet) {
	flags.IntP(sharedF, "f", 0, "bits in a fingerprint, or number of the field")
	flags.MarkHidden(sharedF)
}

// sharedF is the long name of -f, which is not meant to be typed.
const sharedF = "f"

// resolveF sets the flag that -f stands for, if -f was given.
func resolveF(flags *pflag.FlagSet) error {
	if !flags.Changed(sharedF) {
		return nil
	}
	name := "fingerprint-bits"
	if flags.Changed("delim") && !flags.Changed("field") {
		name = "field"
	}
	if flags.Changed(name) {
		return fmt.Errorf("-f and --%s mean the same; give one of them", name)
	}
	return flags.Set(name, flags.Lookup(sharedF).Value.String())
}

// checkPlanFlags reports flags of addPlanFlags that contradict each other.
func checkPlanFlags(flags *pflag.FlagSet) error {
	if flags.Changed("rate") && flags.Changed("fingerprint-bits") {
		return errors.New("-p and --fingerprint-bits cannot be used together, since the bits determine the rate")
	}
	return nil
}

// addRateFlag adds -p. In the options, zero means the default; as the value of -p, it is an error,
// like any rate out of bounds.
func addRateFlag(flags *pflag.FlagSet, opts *mmapfilter.Options, without string) {
	flags.FuncP("rate", "p", "share `P` of absent keys that may be answered \"maybe\" ("+without+")", func(text string) error {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate > 0 && rate < 1) {
			return demand("must be a number between 0 and 1, such as 0.001")
		}
		opts.FalsePositiveRate = rate
		return nil
	})
}

// addKeepFlag adds the flag that makes a new filter keep its hashes.
func addKeepFlag(flags *pflag.FlagSet, opts *mmapfilter.Options) {
	flags.BoolVar(&opts.KeepHashes, "keep-hashes", false,
		"keep the hash of each key in FILTER.hashes: 8 to 9 bytes for each add or del. grow, merge, expire and repair need them")
	flags.DurationVar(&opts.KeepChanges, "keep-changes", 0,
		"keep hashes, and after a rebuild keep the old hashes for `TIME`, such as 48h, so that changes can begin before the rebuild")
}

// addWorkFlags adds the flags for the memory and the workers of a build.
func addWorkFlags(flags *pflag.FlagSet, budget *int64, workers *int) {
	flags.FuncP("memory", "m", "memory `SIZE` for hashes, such as 8GiB; the rest go to files beside what is built (256MiB)", func(text string) (err error) {
		// Zero in the options means the default.
		if *budget, err = parseSize(text); err == nil && *budget == 0 {
			err = demand("must be at least 1MiB")
		}
		return err
	})
	flags.IntVar(workers, "workers", 0, "number `N` of workers (one a processor)")
}

// paramsOf returns the parameters of the layout.
func paramsOf(p *mmapfilter.Plan) layout.Params {
	return layout.Params{FingerprintBits: p.FingerprintBits, BucketSize: p.BucketSize, Quotients: p.Quotients, RemainderBits: p.RemainderBits}
}

func lineSize(p *mmapfilter.Plan) string {
	bits := layout.LineBits(p.Layout, paramsOf(p))
	if bits == 8*layout.LineBytes {
		return fmt.Sprintf("%d bytes", layout.LineBytes)
	}
	return fmt.Sprintf("%d bits", bits)
}

func layoutNames() string { return strings.Join(layoutWords(), ", ") }

func layoutWords() []string {
	names := []string{layout.Auto.String()}
	for _, kind := range layout.Kinds() {
		names = append(names, kind.String())
	}
	return names
}

// optionFlags maps fields of the library's options to the flags that set them.
var optionFlags = map[string]string{
	"Capacity":          "-n",
	"KeepChanges":       "--keep-changes",
	"FalsePositiveRate": "-p",
	"Layout":            "--layout",
	"FingerprintBits":   "--fingerprint-bits",
	"BucketSize":        "-b",
	"MemoryBudget":      "--memory",
	"Workers":           "--workers",
	"LogBytes":          "--log-bytes",
	"ExpireAfter":       "--expire-after",
	"inputs":            "FILTER",
	"Shards":            "--shards",
	"shard":             "--shard",
}
