package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const infoHelp = `Describe the filter. The rates are estimates from a sample of its lines. Of the
hashes that it keeps, only verify reads all. info writes nothing.

FILTER may be a set, NAME.set: info opens all its shards, and names those that
cannot be used. Exit status: 0, or 2 after an error.`

// An infoCommand holds the flags of info.
type infoCommand struct {
	json, showSeed, recover bool
}

func newInfoCommand() *cobra.Command {
	c := new(infoCommand)
	cmd := &cobra.Command{Use: "info FILTER", Short: "describe a filter", Long: infoHelp, Args: needFile, RunE: c.run, Example: "mmapfilter info sha1.mmf"}
	addJSONFlag(cmd.Flags(), &c.json)
	cmd.Flags().BoolVar(&c.showSeed, "show-seed", false, "show the seed of the hash, which may be a secret")
	addRecoverFlag(cmd.Flags(), &c.recover)
	return cmd
}

func (c *infoCommand) run(cmd *cobra.Command, args []string) error {
	if set, _ := sets.IsSet(args[0]); set {
		return c.runSet(cmd, args[0])
	}
	filter, err := mmapfilter.OpenReadOnly(args[0], &mmapfilter.OpenOptions{NoRecover: !c.recover})
	if err != nil {
		return err
	}
	defer filter.Close()
	if c.json {
		return printJSON(cmd.OutOrStdout(), newStatsJSON(args[0], filter, c.showSeed))
	}
	return printStats(cmd.OutOrStdout(), args[0], filter, c.showSeed)
}

// runSet describes a set. It opens all shards; those that cannot be used are reported at the end.
func (c *infoCommand) runSet(cmd *cobra.Command, path string) error {
	set, err := sets.Open(path, &mmapfilter.OpenOptions{NoRecover: !c.recover})
	if err != nil {
		return err
	}
	defer set.Close()
	set.OpenAll() // ShardStats has the errors
	object := newSetStatsJSON(cmd, path, set, c.showSeed)
	if c.json {
		err = printJSON(cmd.OutOrStdout(), object)
	} else {
		err = object.print(cmd.OutOrStdout(), set.Stats())
	}
	if err != nil {
		return err
	}
	for _, shard := range object.Files {
		if shard.Error != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "mmapfilter: %s: %s\n", path, shard.Error)
			err = errReported
		}
	}
	return err
}

func printStats(w io.Writer, path string, filter *mmapfilter.Filter, showSeed bool) error {
	s := filter.Stats()
	t := newTable(w)
	checkpointed := ""
	if s.State == "live" {
		checkpointed = ", at the last checkpoint"
	}
	full := ""
	if s.Capacity > 0 {
		full = fmt.Sprintf(" (%.1f %%)", 100*float64(s.Len)/float64(s.Capacity))
	}
	t.row("keys", "%s of %s%s%s", formatCount(s.Len), formatCount(s.Capacity), full, checkpointed)
	t.row("read as", "%s", describeNote(s.Normalisation))
	t.row("file", "%s", formatSize(s.FileBytes))
	if s.ResidentBytes >= 0 {
		t.row("in memory", "%s", formatSize(s.ResidentBytes))
	}
	t.row("bits per key", "%.2f", s.BitsPerKey)
	t.row("rate asked", "%s", formatRate(s.TargetRate))
	t.row("rate estimated", "%s", formatRate(s.EstimatedRate))
	t.row("second lines", "%s of lookups of absent keys", formatRate(s.SecondProbeRate))
	params := paramsOf(s.Quotients, s.RemainderBits, s.FingerprintBits, s.BucketSize)
	t.row("layout", "%s, %v", s.Layout, params)
	t.row("lines", "%s of %s, %s slots", formatCount(s.Lines), lineSize(s.Layout, params), formatCount(s.Slots))
	t.row("load", "%.4f, planned %.4f", float64(s.Len)/float64(s.Slots), s.DesignLoad)
	t.row("stash", "%s", formatNumber(s.StashLen, "entry", "entries"))
	t.row("state", "%s", describeState(s))
	if s.Shards > 0 {
		t.row("set", "shard %d of %d", s.Shard, s.Shards)
	}
	if s.LogBytes != 0 {
		t.row("log", "%s", formatSize(s.LogBytes))
	}
	if s.KeepsHashes {
		hashes, growth := describeHashes(path, s, lostHashes(path))
		t.row("hashes", "%s", hashes)
		if s.LeftOut > 0 {
			t.row("left out", "%s, which may have been there", formatNumber(s.LeftOut, "key", "keys"))
		}
		if s.Waiting > 0 {
			t.row("waiting", "%s, for the next rebuild", formatNumber(s.Waiting, "delete", "deletes"))
		}
		if growth != "" {
			t.row("growth", "%s", growth)
		}
	}
	if seq, operations := filter.DurableSeq(), filter.DurableOps(); seq|operations != 0 {
		name, text := describeSequence(seq, operations)
		t.row(name, "%s", text)
	}
	if showSeed {
		t.row("seed", "%s", formatSeed(s.Seed))
	}
	for line := range strings.Lines(s.Warning) {
		t.row("warning", "%s", strings.TrimSpace(line))
	}
	t.row("uuid", "%s", s.UUID)
	t.row("kernel", "%s", s.Kernel)
	return t.flush()
}

// describeState describes the state of a file, and for a live one, whether its writer is
// running.
func describeState(s mmapfilter.Stats) string {
	writer := ""
	switch {
	case s.WriterAlive:
		writer = ", its writer is running"
	case s.State == "live":
		writer = ", its writer has died"
	}
	return fmt.Sprintf("%s%s, generation %d", s.State, writer, s.Generation)
}

// A statsJSON is the object that info --json prints.
type statsJSON struct {
	mmapfilter.Stats
	ResidentBytes *int64 `json:"resident_bytes"` // null if the system does not say
	Operations    uint64 `json:"operations"`
	Seed          string `json:"seed,omitempty"` // in hex: not all JSON readers have 64-bit integers
}

func newStatsJSON(path string, filter *mmapfilter.Filter, showSeed bool) statsJSON {
	j := statsJSON{Stats: filter.Stats(), Operations: filter.DurableOps()}
	if j.KeepsHashes {
		if lost := lostHashes(path); lost != nil {
			j.GrowthErr = whatOfHashes(path, lost)
		}
	}
	if showSeed {
		j.Seed = formatSeed(j.Stats.Seed)
	}
	if j.Stats.ResidentBytes >= 0 {
		j.ResidentBytes = &j.Stats.ResidentBytes
	}
	return j
}
