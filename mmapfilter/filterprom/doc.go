// Package filterprom has collectors for Prometheus: one for each filter, follower, set, guard or
// replica.
//
//	f, err := mmapfilter.Open("seen.mmf", nil)
//	…
//	prometheus.MustRegister(filterprom.NewFilterCollector(f, "seen"))
//
// The metrics are fields of Stats. OPERATIONS.md, beside the source of package mmapfilter, lists the
// fields, the metric of each, and when to worry; it also has rules for alerts. A text field becomes
// the label of a metric that is 1. For a long text, such as a warning, a metric only says whether
// there is one. There are no metrics for the identity of a file, the seed, and numbers that follow
// from other metrics.
//
// Each metric has the label name, with the value that was given to the collector. In a registry, two
// filters must not have the same name, nor two sets, two guards or two replicas.
//
// # What is not known
//
// After Close, or while a follower or a set waits for a file, up is 0, and there are no other metrics.
// No metric has a 0 that means "unknown". Metrics that only a writer knows are missing if the filter is
// open for reading only. The rates are missing for a set that has no shard open, and for a filter whose
// reader fails. Unregister a collector that is no longer needed: it keeps the filter in memory, and
// goes on sending the metric up.
//
// # What a scrape costs
//
// A call of Stats does not delay lookups or operations, but may itself take long. It reads 1,024 lines
// of each open file, from the disk if need be. On Linux it asks the system which pages of the file are
// in memory, which takes time in proportion to the file. Stats of a guard may wait for an operation
// that waits for the disk. Err of a filter from OpenReaderAt reads 64 bytes, perhaps over a network.
// So a collector calls Stats and Err in the background:
//
//   - A scrape waits for these calls for at most a second. Then it sends the results of the last calls
//     that have ended, or nothing if none has. So while Stats takes long, up and error are as old as
//     the other metrics.
//   - After a call of Stats, the collector waits a hundred times as long as the call took, but at most
//     a minute, before it calls Stats again. Meanwhile scrapes send the results of this call. So the
//     Stats of small files are new in each scrape. Err is called in each scrape.
package filterprom
