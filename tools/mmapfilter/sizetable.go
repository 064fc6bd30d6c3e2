package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// The rows and columns of size --table.
var (
	tableKeys  = []string{"1M", "10M", "100M", "1B", "10B"}
	tableRates = []float64{0.05, 0.01, 0.001, 0.0001}
)

// trialKeys is the number of keys in the trial build. The time of a build is about proportional
// to its number of keys; with fewer keys, the trial would mostly measure syncs.
const trialKeys = 4_000_000

// printSizes prints the sizes of filters for many numbers of keys and rates, and the cost of
// building them, at each seconds per key.
func printSizes(w io.Writer, opts mmapfilter.Options, each float64) (err error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "keys\t")
	for _, rate := range tableRates {
		fmt.Fprintf(t, "%g %%\t", 100*rate)
	}
	fmt.Fprint(t, "hashes in memory\tdisk\ttime\t\n")
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
