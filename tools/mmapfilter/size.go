package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

func newSizeCommand() *cobra.Command {
	var opts mmapfilter.Options
	var json asJSON
	var asTable bool
	cmd := &cobra.Command{Use: "size -n N", Args: noArgument, Short: "show how large a filter for a number of keys would be",
		Long: "Show how large a filter for N keys is, and its parameters.", Example: "mmapfilter size -n 1e9 -p 0.001"}
	addPlanFlags(cmd.Flags(), &opts, "number `N` of keys, such as 10M, 2.5B, 1e9, 1_000_000", "0.01", "f")
	json.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&asTable, "table", false, "print the sizes for 1 million to 10 billion keys at several rates, and what a build takes here")
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
		return json.print(cmd.OutOrStdout(), newPlanJSON(&opts, plan))
	}
	return cmd
}

// memoryBudget is the budget of a build without --memory.
const memoryBudget = 256 << 20

// A planJSON is what size prints.
type planJSON struct {
	mmapfilter.Plan
	MemoryBytes      int64   `json:"memory_bytes"`
	BuildMemoryBytes int64   `json:"build_memory_bytes"`
	BuildDiskBytes   int64   `json:"build_disk_bytes"`  // besides the file, at most
	InformationBound float64 `json:"information_bound"` // the fewest bits per key that any filter of the rate needs

	byBits bool    // the bits of a fingerprint were asked for, and the rate follows from them
	rate   float64 // the rate that the plan must keep: asked for, or implied by the bits
}

func newPlanJSON(opts *mmapfilter.Options, p mmapfilter.Plan) *planJSON {
	j := &planJSON{Plan: p, MemoryBytes: p.FileBytes, BuildMemoryBytes: memoryBudget, BuildDiskBytes: spoolBytes(p),
		byBits: opts.FingerprintBits != 0, rate: p.TargetRate}
	if j.byBits {
		j.rate = p.PredictedRate
	}
	j.InformationBound = math.Log2(1 / j.rate)
	return j
}

func (j *planJSON) print(w io.Writer) error {
	t := newTable(w)
	p := &j.Plan
	t.row("keys", "%s", formatCount(p.Capacity))
	t.row("file", "%s", formatSize(p.FileBytes))
	t.row("memory", "%s to hold all of it", roundSize(p.FileBytes))
	t.row("to build", "%s of memory, up to %s of disk beside the file", roundSize(memoryBudget), roundSize(j.BuildDiskBytes))
	t.row("layout", "%s, %v", p.Layout, paramsOf(p))
	t.row("lines", "%s of %s", formatCount(p.Lines), lineSize(p))
	t.row("load", "%.2f", p.DesignLoad)
	t.row("bits per key", "%.2f; no filter of rate %s has less than %.2f", p.BitsPerKey, formatRate(j.rate), j.InformationBound)
	t.row("predicted rate", "%s", formatRate(p.PredictedRate))
	t.row("second lines", "%s of lookups of absent keys", formatRate(p.SecondProbeRate))
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", j.explain())
	return err
}

// explain says how the plan was chosen.
func (j *planJSON) explain() string {
	if j.byBits {
		return fmt.Sprintf("f=%d was asked for; the rate follows from it, at %.0f %% load.", j.FingerprintBits, 100*j.DesignLoad)
	}
	reads := "one line for 9 of 10 absent keys"
	if j.SecondProbeRate == 1 {
		reads = "two lines"
	}
	return fmt.Sprintf("The smallest %s filter with a rate of at most %s.\nLookups read %s.", j.Layout, formatRate(j.rate), reads)
}

// The rows and columns of size --table.
var (
	tableKeys  = []string{"1M", "10M", "100M", "1B", "10B"}
	tableRates = []float64{0.05, 0.01, 0.001, 0.0001}
)

// trialKeys is the number of keys in the trial build. The time of a build is about proportional
// to its number of keys; with fewer keys, the trial would mostly measure syncs.
const trialKeys = 4_000_000

// printSizes prints the sizes of filters for many numbers of keys and rates, and what building
// costs. The parameter each is how many seconds a build takes per key.
func printSizes(w io.Writer, opts mmapfilter.Options, each float64) (err error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "keys\t")
	for _, rate := range tableRates {
		fmt.Fprintf(t, "%g %%\t", 100*rate)
	}
	fmt.Fprint(t, "building: memory\tdisk\ttime\t\n")
	for _, keys := range tableKeys {
		if opts.Capacity, err = parseCount(keys); err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t", keys)
		var plan mmapfilter.Plan
		for _, rate := range tableRates {
			opts.FalsePositiveRate = rate
			if plan, err = opts.Plan(); err != nil {
				return err
			}
			fmt.Fprintf(t, "%s\t", roundSize(plan.FileBytes))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", roundSize(min(memoryBudget, spoolBytes(plan))), roundSize(spoolBytes(plan)), roundSeconds(each*float64(plan.Capacity)))
	}
	return t.Flush()
}

// trialBuild builds a filter in the directory for temporary files, and returns the seconds per
// key. Its memory budget, an eighth of the hashes, makes it spool, as a large build does.
func trialBuild(ctx context.Context) (each float64, err error) {
	dir, err := os.MkdirTemp("", "mmapfilter-size-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	keys := func(yield func([]byte, error) bool) {
		var key [8]byte
		for i := range uint64(trialKeys) {
			binary.LittleEndian.PutUint64(key[:], i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
	begun := time.Now()
	f, err := mmapfilter.Build(ctx, filepath.Join(dir, "trial.mmf"), &mmapfilter.Options{MemoryBudget: trialKeys}, keys)
	if err != nil {
		return 0, err
	}
	return time.Since(begun).Seconds() / trialKeys, f.Close()
}

// roundSeconds writes a time in seconds, so that times in a column are easy to compare.
func roundSeconds(seconds float64) string {
	if seconds < 10 {
		return fmt.Sprintf("%.1f s", seconds)
	}
	return fmt.Sprintf("%.0f s", seconds)
}

// spoolBytes returns how much disk space the hashes of a build take at most, besides the new
// file.
func spoolBytes(p mmapfilter.Plan) int64 { return 8 * int64(p.Capacity) }
