// Package filterprom has collectors for Prometheus: one for each filter, follower, set, guard or
// replica.
//
//	f, err := mmapfilter.Open("seen.mmf", nil)
//	…
//	prometheus.MustRegister(filterprom.NewFilterCollector(f, "seen"))
//
// The metrics are fields of Stats. OPERATIONS.md, beside the source of package mmapfilter, lists the
// fields, the metric of each, and when to worry; it also has rules for alerts. A text is the label of a
// metric that is 1; a long one, such as a warning, is only there or not. The identity of a file, the
// seed and what follows from other metrics are left out.
//
// Each metric has the label name. Its value is that given to the collector, and must be another one for
// each filter in a registry, for each set, and for each guard.
//
// # What is not known
//
// After Close, or while a follower or a set waits for a file, up is 0, and there are no other metrics.
// No metric has a 0 that means "unknown". What only a writer knows is missing if the filter is open for
// reading only, and so are the rates of a set that has no shard open, and of a filter whose reader
// fails. Unregister a collector that is no longer needed: it holds on to the filter, and sends up.
//
// # What a scrape costs
//
// Stats do not hold up lookups or operations, but may take long themselves. They read 1,024 lines of
// each open file, from the disk if need be. On Linux they ask the system which pages of the file are in
// memory, which takes time in proportion to the file. Those of a guard may wait for an operation that
// waits for the disk. Err of a filter from OpenReaderAt reads 64 bytes, maybe over a network. So a
// collector calls both beside the scrapes:
//
//   - A scrape waits for them for a second. Then it sends what it has from the last calls; if it has
//     nothing, nothing. So up and error may be as old as the Stats that a scrape waited for in vain.
//   - For a hundred times as long as Stats took, but at most a minute, no others are read, and scrapes
//     send the last ones. Those of small files are new in each scrape. Err is called in each.
package filterprom
