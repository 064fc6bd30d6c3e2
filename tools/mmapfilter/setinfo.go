package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

// A setStatsJSON is the object that info --json prints for a set.
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

func (j *setStatsJSON) print(w io.Writer, s sets.Stats) error {
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
