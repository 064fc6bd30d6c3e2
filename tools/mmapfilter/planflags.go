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

// addPlanFlags adds the flags that say what size and kind of filter to make.
func addPlanFlags(flags *pflag.FlagSet, opts *mmapfilter.Options) {
	flags.FuncP("capacity", "n", "number of keys", func(text string) (err error) {
		opts.Capacity, err = parseCount(text)
		return err
	})
	addRateFlag(flags, opts)
	flags.Func("layout", "name of a layout", func(text string) error {
		kind, ok := layout.ParseKind(text)
		if !ok {
			return fmt.Errorf("there are %s", layoutNames())
		}
		opts.Layout = kind
		return nil
	})
	flags.IntVarP(&opts.FingerprintBits, "fingerprint-bits", "f", 0, "bits a fingerprint")
	flags.IntVarP(&opts.BucketSize, "bucket-size", "b", 0, "slots a bucket")
}

// checkPlanFlags reports flags of addPlanFlags that contradict each other.
func checkPlanFlags(flags *pflag.FlagSet) error {
	if flags.Changed("rate") && flags.Changed("fingerprint-bits") {
		return errors.New("-p and -f cannot stand together: f gives the rate")
	}
	return nil
}

// addRateFlag adds -p. The zero of the options means the default; here it is
// an error like any rate that is out of bounds.
func addRateFlag(flags *pflag.FlagSet, opts *mmapfilter.Options) {
	flags.FuncP("rate", "p", "false-positive rate", func(text string) error {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("not a number")
		}
		if !(rate > 0 && rate < 1) {
			return errors.New("not between 0 and 1")
		}
		opts.FalsePositiveRate = rate
		return nil
	})
}

// lineSize says how large a line is.
func lineSize(kind mmapfilter.Layout, f, b int) string {
	bits := layout.LineBits(kind, layout.Params{FingerprintBits: f, BucketSize: b})
	if bits == 8*layout.LineBytes {
		return fmt.Sprintf("%d bytes", layout.LineBytes)
	}
	return fmt.Sprintf("%d bits", bits)
}

func layoutNames() string {
	names := []string{layout.Auto.String()}
	for _, kind := range layout.Kinds() {
		names = append(names, kind.String())
	}
	return strings.Join(names, ", ")
}

// optionFlags maps fields of the library's options to the flags that set them.
var optionFlags = map[string]string{
	"Capacity":          "-n",
	"FalsePositiveRate": "-p",
	"Layout":            "--layout",
	"FingerprintBits":   "-f",
	"BucketSize":        "-b",
	"MemoryBudget":      "--memory",
	"Workers":           "--workers",
	"LogBytes":          "--log-bytes",
}

// flagError puts an error about an option in terms of its flag.
func flagError(err error) error {
	var option *mmapfilter.OptionError
	if errors.As(err, &option) {
		if flag := optionFlags[option.Field]; flag != "" {
			return fmt.Errorf("%s: %s", flag, option.Reason)
		}
	}
	return err
}
