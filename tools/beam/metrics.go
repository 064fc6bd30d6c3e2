package main

import "github.com/apache/beam/sdks/v2/go/pkg/beam"

// metrics is the namespace of the counters:
//
//	read                    keys, by the workers that hash
//	chunks                  that these workers sent
//	built                   shards; more than there are if some are built again
//	shards, items, bytes    of the set, once the manifest is written
const metrics = "mmapfilter"

// counts returns what the pipeline counted.
func counts(result beam.PipelineResult) map[string]int64 {
	n := make(map[string]int64)
	for _, c := range result.Metrics().AllMetrics().Counters() {
		if c.Namespace() == metrics {
			n[c.Name()] += c.Result()
		}
	}
	return n
}
