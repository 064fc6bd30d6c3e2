package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A job is a set to make.
type job struct {
	plan      []byte // the file: Beam carries it to the workers
	globs     []string
	manifest  string // path or URL
	memory    int64  // bytes for each shard under construction; 0 means the default
	partBytes int64
}

// newJob returns the job of the plan in the file at path.
func newJob(path string, plan []byte, globs []string, manifest string) (*job, error) {
	p, err := sets.DecodePlan(path, plan)
	if err != nil {
		return nil, err
	}
	if p.Normalisation != "" {
		return nil, fmt.Errorf("%s: keys are read as %q; this program reads a key from each line, as it stands there, and nothing else", path, p.Normalisation)
	}
	j := &job{plan: plan, manifest: absolute(manifest), partBytes: 64 << 20}
	if _, name := split(j.manifest); name == "" {
		return nil, fmt.Errorf("%s names no manifest", manifest)
	}
	for _, g := range globs {
		j.globs = append(j.globs, absolute(g))
	}
	return j, nil
}

// add adds the job to a pipeline.
func (j *job) add(s beam.Scope) {
	parts := beam.ParDo(s.Scope("list"), &listFn{Globs: j.globs, PartBytes: j.partBytes}, beam.Impulse(s))
	chunks, read := beam.ParDo2(s.Scope("hash"), &hashFn{Plan: j.plan}, beam.Reshuffle(s, parts))
	dir, _ := split(j.manifest)
	built := beam.ParDo(s.Scope("build"), &buildFn{Plan: j.plan, Dir: dir, Memory: j.memory}, beam.GroupByKey(s, chunks))
	all := beam.GroupByKey(s, beam.AddFixedKey(s, built))
	beam.ParDo0(s.Scope("assemble"), &assembleFn{Plan: j.plan, Manifest: j.manifest}, all, beam.SideInput{Input: read})
}

// isURL reports whether a path is on a filesystem of Beam other than the machine's own.
func isURL(path string) bool { return strings.Contains(path, "://") }

// absolute makes a path independent of the directory that a worker runs in.
func absolute(path string) string {
	if isURL(path) {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil && !strings.HasSuffix(path, "/") {
		return abs
	}
	return path
}

// split cuts a path or a URL before its last element.
func split(path string) (dir, name string) {
	if isURL(path) {
		i := strings.LastIndexByte(path, '/')
		return path[:i], path[i+1:]
	}
	dir, name = filepath.Split(path)
	return filepath.Clean(dir), name
}

// metrics is the namespace of the counters:
//
//	read                    keys that the workers have hashed
//	chunks                  chunks that these workers have sent
//	built                   shards built; more than the set has if some were built again
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
