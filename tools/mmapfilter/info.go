package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const infoHelp = `Describe the filter. The rates are estimates from a sample of its lines. Of the
hashes that the filter keeps, info reads only some; verify reads all. info
writes nothing to the filter, except with --recover.

FILTER may be a set, NAME.set: info opens all its shards, and names those that
cannot be used.

` + urlHelp + `

Exit status: 0, or 2 after an error.`

// An infoCommand holds the flags of info.
type infoCommand struct {
	json              asJSON
	showSeed, recover bool
}

func newInfoCommand() *cobra.Command {
	c := new(infoCommand)
	cmd := &cobra.Command{Use: "info FILTER", Short: "describe a filter", Long: infoHelp, Args: needFile, RunE: c.run, Example: "mmapfilter info sha1.mmf"}
	c.json.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&c.showSeed, "show-seed", false, "show the seed of the hash, which may be a secret")
	addRecoverFlag(cmd.Flags(), &c.recover)
	return cmd
}

func (c *infoCommand) run(cmd *cobra.Command, args []string) error {
	path, opts := args[0], &mmapfilter.OpenOptions{NoRecover: !c.recover}
	if isSet(path) || isSetURL(path) {
		return c.runSet(cmd, path, opts)
	}
	filter, err := openFilter(cmd, path, opts, "recover")
	if err != nil {
		return err
	}
	defer filter.Close()
	return c.json.print(cmd.OutOrStdout(), newStatsJSON(path, filter, c.showSeed))
}

// runSet describes a set. It opens all shards, and at the end reports the shards that cannot be
// used.
func (c *infoCommand) runSet(cmd *cobra.Command, path string, opts *mmapfilter.OpenOptions) error {
	set, err := openSet(cmd, path, opts, "recover")
	if err != nil {
		return err
	}
	defer set.Close()
	set.OpenAll() // ShardStats has the errors
	object := newSetStatsJSON(cmd, path, set, c.showSeed)
	if err := c.json.print(cmd.OutOrStdout(), object); err != nil {
		return err
	}
	for _, shard := range object.Files {
		if shard.Error != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "mmapfilter: %s: %s\n", shownURL(path), shard.Error)
			err = errReported
		}
	}
	return err
}

func (j *statsJSON) print(w io.Writer) error {
	s := j.Stats
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
	t.row("layout", "%s, %v", s.Layout, paramsOf(&s.Plan))
	t.row("lines", "%s of %s, %s slots", formatCount(s.Lines), lineSize(&s.Plan), formatCount(s.Slots))
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
		hashes, growth := describeHashes(j.path, s, lostHashes(j.path))
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
		if s.KeepChanges > 0 || s.PastBytes > 0 {
			t.row("changes", "kept for %s after a rebuild, now in %s", formatAge(s.KeepChanges), formatSize(s.PastBytes))
		}
		if s.ExpireAfter > 0 {
			t.row("expiry", "keys leave %s after they were first added", formatAge(s.ExpireAfter))
		}
	}
	if j.seq|j.Operations != 0 {
		name, text := describeSequence(j.seq, j.Operations)
		t.row(name, "%s", text)
	}
	if j.Seed != "" {
		t.row("seed", "%s", j.Seed)
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

// A statsJSON is what info prints of a filter.
type statsJSON struct {
	mmapfilter.Stats
	ResidentBytes *int64 `json:"resident_bytes"` // null if the system does not say
	Operations    uint64 `json:"operations"`
	Seed          string `json:"seed,omitempty"` // in hex: not all JSON readers have 64-bit integers

	path string
	seq  uint64
}

func newStatsJSON(path string, filter *mmapfilter.Filter, showSeed bool) *statsJSON {
	j := &statsJSON{Stats: filter.Stats(), Operations: filter.DurableOps(), path: path, seq: filter.DurableSeq()}
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

// A setStatsJSON is what info prints of a set.
type setStatsJSON struct {
	sets.Stats
	ResidentBytes *int64      `json:"resident_bytes"` // null if the system does not say
	Seed          string      `json:"seed,omitempty"`
	Files         []shardJSON `json:"files"`
}

type shardJSON struct {
	Shard     int    `json:"shard"`
	Path      string `json:"path"`
	Keys      uint64 `json:"keys"`
	FileBytes int64  `json:"file_bytes"`
	Error     string `json:"error"` // "" if it can be used
}

func newSetStatsJSON(cmd *cobra.Command, path string, set *sets.Set, showSeed bool) *setStatsJSON {
	stats := set.Stats()
	j := &setStatsJSON{Stats: stats, ResidentBytes: &stats.ResidentBytes}
	if stats.ResidentBytes < 0 {
		j.ResidentBytes = nil
	}
	if showSeed {
		j.Seed = formatSeed(stats.Seed)
	}
	for i, shard := range set.ShardStats() {
		one := shardJSON{Shard: i, Path: shardPath(path, shard.Path), Keys: shard.Keys, FileBytes: shard.Bytes}
		if e := new(sets.ShardError); errors.As(shard.Err, &e) {
			one.Error = strings.ReplaceAll(explainShard(cmd, path, e), "\n", "; ")
		}
		j.Files = append(j.Files, one)
	}
	return j
}

func (j *setStatsJSON) print(w io.Writer) error {
	s := &j.Stats
	t := newTable(w)
	full := ""
	if s.Cap > 0 {
		full = fmt.Sprintf(" (%.1f %%)", 100*float64(s.Len)/float64(s.Cap))
	}
	t.row("keys", "%s of %s%s", formatCount(s.Len), formatCount(s.Cap), full)
	t.row("read as", "%s", describeNote(s.Normalisation))
	least, most := j.Files[0].Keys, uint64(0)
	for _, shard := range j.Files {
		least, most = min(least, shard.Keys), max(most, shard.Keys)
	}
	t.row("shards", "%s, with %s to %s each", formatCount(s.Shards), formatCount(least), formatNumber(most, "key", "keys"))
	if s.Failed > 0 {
		t.row("unusable", "%s, which may have any key", formatNumber(s.Failed, "shard", "shards"))
	}
	t.row("files", "%s", formatSize(s.FileBytes))
	if s.ResidentBytes >= 0 {
		t.row("in memory", "%s", formatSize(s.ResidentBytes))
	}
	t.row("bits per key", "%.2f", s.BitsPerKey)
	t.row("rate asked", "%s", formatRate(s.TargetRate))
	t.row("rate estimated", "%s, %s in the shard with the highest", formatRate(s.EstimatedRate), formatRate(s.HighestRate))
	if j.Seed != "" {
		t.row("seed", "%s", j.Seed)
	}
	t.row("plan", "%s", s.Plan)
	return t.flush()
}
