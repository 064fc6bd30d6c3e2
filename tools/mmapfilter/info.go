package main

import (
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const infoHelp = `Usage: mmapfilter info [--json] FILTER

Describe the filter. The rates are estimates from a sample of its lines.

      --json        print a JSON object
      --show-seed   show the seed of the hash, which may be a secret

Example: mmapfilter info sha1.mmf`

func newInfoCommand() *cobra.Command {
	var asJSON, showSeed bool
	cmd := &cobra.Command{Use: "info", Long: infoHelp, Args: needFile}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&showSeed, "show-seed", false, "show the seed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := mmapfilter.OpenReadOnly(args[0], nil)
		if err != nil {
			return err
		}
		defer filter.Close()
		if asJSON {
			return printJSON(cmd.OutOrStdout(), newStatsJSON(filter, showSeed))
		}
		return printStats(cmd.OutOrStdout(), filter, showSeed)
	}
	return cmd
}

func printStats(w io.Writer, filter *mmapfilter.Filter, showSeed bool) error {
	s := filter.Stats()
	t := newTable(w)
	checkpointed := ""
	if s.State == "live" {
		checkpointed = ", at the last checkpoint"
	}
	t.row("keys", "%s of %s%s", formatCount(s.Len), formatCount(s.Cap), checkpointed)
	t.row("read as", "%s", describeNote(s.Normalisation))
	t.row("file", "%s", formatSize(s.FileBytes))
	if s.ResidentBytes >= 0 {
		t.row("in memory", "%s", formatSize(s.ResidentBytes))
	}
	t.row("bits per key", "%.2f", s.BitsPerKey)
	t.row("rate asked", "%s", formatRate(s.TargetRate))
	t.row("rate estimated", "%s", formatRate(s.EstimatedRate))
	t.row("second probes", "%s of lookups of absent keys", formatRate(s.SecondProbeRate))
	t.row("layout", "%s, f=%d b=%d", s.Layout, s.FingerprintBits, s.BucketSize)
	t.row("lines", "%s of %s, %s slots", formatCount(s.Lines), lineSize(s.Layout, s.FingerprintBits, s.BucketSize), formatCount(s.Slots))
	t.row("load", "%.4f, planned %.4f", s.Load, s.DesignLoad)
	t.row("stash", "%s", formatNumber(s.StashLen, "entry", "entries"))
	t.row("state", "%s, generation %d", s.State, s.Generation)
	if s.LogBytes != 0 {
		t.row("log", "%s", formatSize(s.LogBytes))
	}
	if seq, operations := filter.DurableSeq(), filter.DurableOps(); seq|operations != 0 {
		t.row("sequence", "%s", formatSequence(seq, operations))
	}
	if showSeed {
		t.row("seed", "%s", formatSeed(s.Seed))
	}
	t.row("uuid", "%s", s.UUID)
	t.row("kernel", "%s", s.Kernel)
	return t.flush()
}

// describeNote explains the note of how keys were made, if it is empty.
func describeNote(note string) string {
	if note == "" {
		return "one key a line"
	}
	return note
}

func formatSeed(seed uint64) string { return fmt.Sprintf("0x%016x", seed) }

// A statsJSON is the object that info --json prints.
type statsJSON struct {
	Keys            uint64  `json:"keys"`
	Capacity        uint64  `json:"capacity"`
	Normalisation   string  `json:"normalisation"`
	FileBytes       int64   `json:"file_bytes"`
	ResidentBytes   *int64  `json:"resident_bytes"` // null where the system does not say
	BitsPerKey      float64 `json:"bits_per_key"`
	TargetRate      float64 `json:"target_rate"`
	EstimatedRate   float64 `json:"estimated_rate"`
	SecondProbeRate float64 `json:"second_probe_rate"`
	Layout          string  `json:"layout"`
	FingerprintBits int     `json:"fingerprint_bits"`
	BucketSize      int     `json:"bucket_size"`
	Lines           uint64  `json:"lines"`
	Slots           uint64  `json:"slots"`
	Load            float64 `json:"load"`
	DesignLoad      float64 `json:"design_load"`
	StashLen        int     `json:"stash_len"`
	State           string  `json:"state"`
	Generation      uint64  `json:"generation"`
	LogBytes        int64   `json:"log_bytes,omitempty"`
	UserSeq         uint64  `json:"user_seq,omitempty"`
	Operations      uint64  `json:"operations,omitempty"`
	Seed            string  `json:"seed,omitempty"` // in hex: not every reader of JSON has 64 bits
	UUID            string  `json:"uuid"`
	Kernel          string  `json:"kernel"`
}

func newStatsJSON(filter *mmapfilter.Filter, showSeed bool) statsJSON {
	s := filter.Stats()
	j := statsJSON{
		Keys:            s.Len,
		Capacity:        s.Cap,
		Normalisation:   s.Normalisation,
		FileBytes:       s.FileBytes,
		BitsPerKey:      s.BitsPerKey,
		TargetRate:      s.TargetRate,
		EstimatedRate:   s.EstimatedRate,
		SecondProbeRate: s.SecondProbeRate,
		Layout:          s.Layout.String(),
		FingerprintBits: s.FingerprintBits,
		BucketSize:      s.BucketSize,
		Lines:           s.Lines,
		Slots:           s.Slots,
		Load:            s.Load,
		DesignLoad:      s.DesignLoad,
		StashLen:        s.StashLen,
		State:           s.State,
		Generation:      s.Generation,
		LogBytes:        s.LogBytes,
		UserSeq:         filter.DurableSeq(),
		Operations:      filter.DurableOps(),
		UUID:            s.UUID,
		Kernel:          s.Kernel,
	}
	if showSeed {
		j.Seed = formatSeed(s.Seed)
	}
	if s.ResidentBytes >= 0 {
		j.ResidentBytes = &s.ResidentBytes
	}
	return j
}
