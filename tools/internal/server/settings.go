package server

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A kind is one of the two types of RedisBloom: a cuckoo filter or a Bloom filter.
type kind string

const (
	anyKind kind = ""
	cuckoo  kind = "CF"
	bloom   kind = "BF"
)

// typeName returns what TYPE answers.
func (k kind) typeName() string {
	if k == bloom {
		return "MBbloom--"
	}
	return "MBbloomCF"
}

// Settings are what a key was made with.
type settings struct {
	kind                              kind
	bucketSize, iterations, expansion int64

	capacity uint64  // of a new filter
	rate     float64 // of a new filter
}

var (
	newCuckoo = settings{kind: cuckoo, bucketSize: 2, iterations: 20, expansion: 1, capacity: 1024}
	newBloom  = settings{kind: bloom, expansion: 2, capacity: 100, rate: 0.01}
)

// note returns the note on normalisation of a filter, with those settings that a filter file has
// no fields for. Package main of tools/mmapfilter reads this note.
func (s settings) note() string {
	return fmt.Sprintf("served=%s,%d,%d,%d", s.kind, s.bucketSize, s.iterations, s.expansion)
}

// settingsOf returns the settings of a filter. It treats a filter that the server has not made as a
// cuckoo filter.
func settingsOf(f *mmapfilter.Filter) settings {
	note := f.Normalisation()
	var s settings
	if len(note) > 10 {
		s.kind = kind(note[7:9])
		fmt.Sscanf(note[9:], ",%d,%d,%d", &s.bucketSize, &s.iterations, &s.expansion)
	}
	if s.note() == note && (s.kind == cuckoo || s.kind == bloom) {
		return s
	}
	s = newCuckoo
	if !f.Stats().Grows {
		s.expansion = 0
	}
	return s
}

// seed is the seed of the hash of each new filter in tests; 0 means a random one for each filter.
var seed uint64

// options returns the options of a new filter.
func (s settings) options() *mmapfilter.Options {
	return &mmapfilter.Options{
		Capacity:          s.capacity,
		FalsePositiveRate: s.rate,
		Seed:              seed,
		Normalisation:     s.note(),
		AutoGrow:          s.expansion != 0,
		Overwrite:         true, // files that a removed key has left
		Mode:              0o644,
	}
}
