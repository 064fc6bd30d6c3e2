package filterprom

import (
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/prometheus/client_golang/prometheus"
)

// A metric is a number or a text from a Stats.
type metric struct {
	name  string // without the prefix that all metrics of a collector share
	help  string
	kind  prometheus.ValueType
	value float64
	texts []string // the value of a label with the name of the metric; or nil
}

// sampled reports whether a metric of a filter comes from a sample of its lines.
func (m metric) sampled() bool {
	return m.name == "false_positive_ratio" || m.name == "second_probe_ratio"
}

func gauge[N int | int64 | uint64 | float64](name, help string, value N) metric {
	return metric{name, help, prometheus.GaugeValue, float64(value), nil}
}

func counter(name, help string, value uint64) metric {
	return metric{name, help, prometheus.CounterValue, float64(value), nil}
}

func label(name, help, text string) metric {
	return metric{name, help, prometheus.GaugeValue, 1, []string{text}}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ofFilter returns the metrics of a filter. Metrics that only a writer knows are left out for a reader.
func ofFilter(s mmapfilter.Stats, writes bool) []metric {
	metrics := []metric{
		gauge("keys", "Items, with each equal key counted.", s.Len),
		gauge("capacity_keys", "Keys that the filter was sized for.", s.Capacity),
		gauge("false_positive_ratio", "Current rate, from a sample of lines.", s.EstimatedRate),
		gauge("target_false_positive_ratio", "Rate that was asked for.", s.TargetRate),
		gauge("second_probe_ratio", "Share of lookups of absent keys that read a second line, from a sample of lines.", s.SecondProbeRate),
		gauge("stash_entries", "Stash entries in use, of 768.", s.StashLen),
		gauge("file_bytes", "Size of the file.", s.FileBytes),
		gauge("generation", "Generation of the file.", s.Generation),
		label("state", "1, with the state of the file as a label.", s.State),
		gauge("writer_alive", "Whether a process has the file open for writing.", number(s.WriterAlive)),
		gauge("warning", "Whether Stats.Warning says something.", number(s.Warning != "")),
		gauge("durable_sequence", "Number of the last durable SyncAt.", s.DurableSeq),
		gauge("keeps_hashes", "Whether the filter is set to keep its hashes.", number(s.KeepsHashes)),
		gauge("grows", "Whether the filter is set to grow by itself.", number(s.Grows)),
		gauge("keep_changes_seconds", "How long the history from before a rebuild is kept.", s.KeepChanges.Seconds()),
		gauge("past_bytes", "Size of the history from before rebuilds.", s.PastBytes),
		gauge("expire_after_seconds", "How long keys stay, or 0 if they do not leave by themselves.", s.ExpireAfter.Seconds()),
		gauge("expire_error", "Whether Stats.ExpireErr says why keys do not leave in time.", number(s.ExpireErr != "")),
		gauge("growth_error", "Whether Stats.GrowthErr says why the filter cannot grow.", number(s.GrowthErr != "")),
		gauge("left_out_keys", "Keys that InsertUnique has left out since the last rebuild.", s.LeftOut),
		gauge("waiting_deletes", "Deletes that wait for the next rebuild.", s.Waiting),
		counter("swaps_total", "How often the follower has switched to another file.", s.Swaps),
		label("kernel", "1, with the instruction set for batches of lookups as a label.", s.Kernel),
		label("residency", "1, with how the file comes into memory as a label.", s.Residency),
	}
	if s.ResidentBytes >= 0 {
		metrics = append(metrics, gauge("resident_bytes", "How much of the file is in memory.", s.ResidentBytes))
	}
	if !writes {
		return metrics
	}
	return append(metrics, []metric{
		gauge("pending_operations", "Operations that are not committed.", s.Pending),
		gauge("log_bytes", "Size of the log.", s.LogBytes),
		counter("commits_total", "Commits.", s.Commits),
		counter("checkpoints_total", "Checkpoints.", s.Checkpoints),
		counter("rebuilds_total", "Rebuilds.", s.Rebuilds),
		counter("expired_total", "Items that have left by themselves, or by ExpireBefore.", s.Expired),
		gauge("rebuild_stall_seconds", "How long operations waited at the end of the last rebuild.", s.RebuildStall.Seconds()),
		gauge("longest_stall_seconds", "Longest time that an operation has waited for the log or the disk.", s.LongestStall.Seconds()),
		gauge("recovered", "Whether the filter was recovered when it was opened.", number(s.Recovery.Recovered)),
	}...)
}

// ofSet returns the metrics of a set. The rates of shards are left out until a shard is open.
func ofSet(s sets.Stats) []metric {
	metrics := []metric{
		gauge("keys", "Items, with each equal key counted.", s.Len),
		gauge("capacity_keys", "Keys that the set was sized for.", s.Cap),
		gauge("target_false_positive_ratio", "Rate that was asked for.", s.TargetRate),
		gauge("shards", "Shards.", s.Shards),
		gauge("open_shards", "Shards that are open.", s.Opened),
		gauge("failed_shards", "Shards that an error limits.", s.Failed),
		gauge("file_bytes", "Size of all shards when the manifest was written.", s.FileBytes),
		counter("swaps_total", "How often the set has switched to another manifest.", s.Swaps),
	}
	if s.ResidentBytes >= 0 {
		metrics = append(metrics, gauge("resident_bytes", "How much of the open shards is in memory.", s.ResidentBytes))
	}
	if s.Opened == 0 {
		return metrics
	}
	return append(metrics, []metric{
		gauge("false_positive_ratio", "Current rate of the open shards on average, from a sample of lines.", s.EstimatedRate),
		gauge("highest_false_positive_ratio", "Current rate of the open shard with the highest rate, from a sample of lines.", s.HighestRate),
	}...)
}

// ofGuard returns the metrics of a guard.
func ofGuard(s guard.Stats) []metric {
	return []metric{
		counter("lookups_total", "Lookups of keys that the guard covers.", s.Lookups),
		counter("skipped_total", "Lookups that did not reach the store.", s.Skipped),
		counter("true_positives_total", "Lookups that passed the filter and found the key.", s.TruePositives),
		counter("false_positives_total", "Lookups that passed the filter and found no key.", s.FalsePositives),
		counter("unfiltered_total", "Lookups that the filter could not answer.", s.Unfiltered),
		gauge("target_false_positive_ratio", "Rate that was asked for.", s.RateAsked),
		label("state", "1, with the state of the guard as a label.", s.State),
		gauge("error", "Whether Stats.Err says why the filter is off, was built anew, or could not be rebuilt.", number(s.Err != "")),
		gauge("keys", "Keys in the filter or on their way into it.", s.Keys),
		gauge("gone_keys", "About how many of the keys the store has deleted.", s.Gone),
		gauge("capacity_keys", "Keys that the filter was sized for.", s.Capacity),
		gauge("overflow_keys", "Keys that wait for a larger filter.", s.Overflow),
		counter("rebuilds_total", "Rebuilds.", s.Rebuilds),
		gauge("rebuild_seconds", "How long the last rebuild took.", s.Rebuild.Seconds()),
		gauge("outbox_transactions", "Transactions whose keys the filter does not have durably.", s.Outbox),
		gauge("outbox_age_seconds", "About how long these transactions have waited.", s.Age.Seconds()),
		gauge("pending_deletes", "Deletes that the filter has not done yet.", s.Pending),
		gauge("replayed_keys", "Keys that Open took from the outbox, or from the store.", s.Replayed),
	}
}

// ofReplica returns the metrics of a replica.
func ofReplica(s replica.Stats) []metric {
	return []metric{
		gauge("lag_seconds", "Time since the replica last had all operations of the primary.", s.LagSeconds),
		gauge("lag_operations", "Operations that the primary had and the replica lacked, as of the last answer.", s.LagOperations),
		counter("sets_total", "Sets of changes that were applied.", s.Sets),
		counter("snapshots_total", "Snapshots that were taken.", s.Snapshots),
		counter("change_bytes_total", "Bytes of changes that were received.", s.ChangeBytes),
		counter("snapshot_bytes_total", "Bytes of snapshots that were received.", s.SnapshotBytes),
		counter("failures_total", "Exchanges that failed.", s.Failures),
	}
}
