package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

func newSizeCommand() *cobra.Command {
	var opts mmapfilter.Options
	var asJSON, asTable bool
	cmd := &cobra.Command{Use: "size -n N", Short: "show how large a filter for a number of keys would be",
		Long: "Show how large a filter for N keys is, and its parameters.", Example: "mmapfilter size -n 1e9 -p 0.001"}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("size takes no arguments, but got %q", args[0])
		}
		return nil
	}
	addPlanFlags(cmd.Flags(), &opts, "number `N` of keys, such as 10M, 2.5B, 1e9, 1_000_000", "0.01", "f")
	addJSONFlag(cmd.Flags(), &asJSON)
	cmd.Flags().BoolVar(&asTable, "table", false, "print the sizes for 1 million to 10 billion keys at several rates, and what building them takes here")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPlanFlags(cmd.Flags()); err != nil {
			return err
		}
		if asTable {
			for _, name := range []string{"capacity", "rate", "fingerprint-bits", "bucket-size", "json"} {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--table cannot be used with --%s", name)
				}
			}
			each, err := trialBuild(cmd.Context())
			if err != nil {
				return fmt.Errorf("trial build: %w", err)
			}
			return printSizes(cmd.OutOrStdout(), opts, each)
		}
		if opts.Capacity == 0 {
			return errors.New("size needs -n, the number of keys")
		}
		plan, err := opts.Plan()
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), newPlanJSON(&opts, plan))
		}
		return printPlan(cmd.OutOrStdout(), &opts, plan)
	}
	return cmd
}

// informationBound returns the fewest bits per key with which any filter can have this
// false-positive rate.
func informationBound(rate float64) float64 { return math.Log2(1 / rate) }

// memoryBudget is that of a build without --memory.
const memoryBudget = 256 << 20

// rateAsked returns the rate that a plan must keep: the one asked for, or the one that follows
// from the fingerprint asked for.
func rateAsked(opts *mmapfilter.Options, p mmapfilter.Plan) float64 {
	if opts.FingerprintBits != 0 {
		return p.PredictedRate
	}
	return p.TargetRate
}

func printPlan(w io.Writer, opts *mmapfilter.Options, p mmapfilter.Plan) error {
	t := newTable(w)
	t.row("keys", "%s", formatCount(p.Capacity))
	t.row("file", "%s", formatSize(p.FileBytes))
	t.row("memory", "%s to hold all of it", roundSize(p.FileBytes))
	t.row("to build", "%s of memory, up to %s of disk beside the file", roundSize(memoryBudget), roundSize(spoolBytes(p)))
	params := paramsOf(p.Quotients, p.RemainderBits, p.FingerprintBits, p.BucketSize)
	t.row("layout", "%s, %v", p.Layout, params)
	t.row("lines", "%s of %s", formatCount(p.Lines), lineSize(p.Layout, params))
	t.row("load", "%.2f", p.DesignLoad)
	rate := rateAsked(opts, p)
	t.row("bits per key", "%.2f; no filter of rate %s has less than %.2f", p.BitsPerKey, formatRate(rate), informationBound(rate))
	t.row("predicted rate", "%s", formatRate(p.PredictedRate))
	t.row("second lines", "%s of lookups of absent keys", formatRate(p.SecondProbeRate))
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", explainPlan(opts, p))
	return err
}

// explainPlan says why the plan is as it is.
func explainPlan(opts *mmapfilter.Options, p mmapfilter.Plan) string {
	if opts.FingerprintBits != 0 {
		return fmt.Sprintf("f=%d was asked for; the rate follows from it, at %.0f %% load.", p.FingerprintBits, 100*p.DesignLoad)
	}
	reads := "one line in 9 of 10 lookups, for life"
	if p.SecondProbeRate == 1 {
		reads = "two lines"
	}
	return fmt.Sprintf("The smallest of layout %s that keeps to the rate %s.\nIt reads %s.", p.Layout, formatRate(rateAsked(opts, p)), reads)
}

// A planJSON is the object that size --json prints.
type planJSON struct {
	Capacity         uint64  `json:"capacity"`
	FileBytes        int64   `json:"file_bytes"`
	MemoryBytes      int64   `json:"memory_bytes"`
	BuildMemoryBytes int64   `json:"build_memory_bytes"`
	BuildDiskBytes   int64   `json:"build_disk_bytes"` // besides the file, at most
	Layout           string  `json:"layout"`
	Quotients        int     `json:"quotients,omitempty"`
	RemainderBits    int     `json:"remainder_bits,omitempty"`
	FingerprintBits  int     `json:"fingerprint_bits,omitempty"`
	BucketSize       int     `json:"bucket_size,omitempty"`
	Lines            uint64  `json:"lines"`
	DesignLoad       float64 `json:"design_load"`
	BitsPerKey       float64 `json:"bits_per_key"`
	InformationBound float64 `json:"information_bound"`
	PredictedRate    float64 `json:"predicted_rate"`
	SecondProbeRate  float64 `json:"second_probe_rate"`
}

func newPlanJSON(opts *mmapfilter.Options, p mmapfilter.Plan) planJSON {
	return planJSON{
		Capacity:         p.Capacity,
		FileBytes:        p.FileBytes,
		MemoryBytes:      p.FileBytes,
		BuildMemoryBytes: memoryBudget,
		BuildDiskBytes:   spoolBytes(p),
		Layout:           p.Layout.String(),
		Quotients:        p.Quotients,
		RemainderBits:    p.RemainderBits,
		FingerprintBits:  p.FingerprintBits,
		BucketSize:       p.BucketSize,
		Lines:            p.Lines,
		DesignLoad:       p.DesignLoad,
		BitsPerKey:       p.BitsPerKey,
		InformationBound: informationBound(rateAsked(opts, p)),
		PredictedRate:    p.PredictedRate,
		SecondProbeRate:  p.SecondProbeRate,
	}
}
