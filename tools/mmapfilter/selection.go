package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A checkCommand holds the flags of check.
type checkCommand struct {
	invert, count, quiet, number, record, json, follow, recover bool

	opening mmapfilter.OpenOptions
	format  *formatFlags
	plain   bool
}

// A selection is a run of check. It looks up keys in a filter, many at a time, and prints the
// selected ones in the order of the input.
type selection struct {
	*checkCommand
	path     string
	target   // where keys are looked up
	in       *input
	out      *bufio.Writer
	objects  *json.Encoder // writes to out
	bar      *progress
	say      func(string) // writes to standard error
	report   func(error)  // reports that a source could not be read completely
	reported bool
	headed   bool // the header has been printed
	selected uint64
	err      error // the first error of a lookup or of the output

	block block
	found []bool
}

// A target is where a selection looks up keys: a filter, which with --follow is the newest file,
// or a set.
type target struct {
	filter   *mmapfilter.Filter   // nil with --follow, and for a set
	follower *mmapfilter.Follower // nil without --follow, and for a set
	set      *sets.Set            // nil for a filter
	refused  error                // why a new file was not taken over
	told     bool                 // the user knows that all answers are "maybe"
	limited  bool                 // some shards of the set answer only "maybe"
	shards   map[string]bool      // errors of shards that have been reported

	note     string // the note of the filter by which the keys of the input are made
	recorded format // the format in that note; zero with --plain
}

// An answering is a filter or a set.
type answering interface {
	ContainsBatch(keys [][]byte, found []bool)
	Normalisation() string
	Err() error
}

// answers returns the filter or set that answers now.
func (t *target) answers() answering {
	switch {
	case t.set != nil:
		return t.set
	case t.follower != nil:
		return t.follower.Filter()
	}
	return t.filter
}

func (t *target) close() error {
	switch {
	case t.set != nil:
		return t.set.Close()
	case t.follower != nil:
		return t.follower.Close()
	}
	return t.filter.Close()
}

// fail keeps the first error, unless the outcome is already known.
func (s *selection) fail(err error) {
	if s.err == nil && !s.done() {
		s.err = err
	}
}

// done reports whether no further key can change the outcome.
func (s *selection) done() bool { return s.quiet && s.selected > 0 }

func (s *selection) flush() {
	s.fail(s.out.Flush())
}

// reportShards reports the shards of a set that cannot be used.
func (s *selection) reportShards() {
	if s.set == nil || s.set.Err() == nil {
		return
	}
	for _, shard := range s.set.ShardStats() {
		if e := new(sets.ShardError); errors.As(shard.Err, &e) {
			s.reportShard(e)
		}
	}
}

// reportShard reports once that a shard answers only "maybe". If the flags allow such answers, this
// is no error.
func (s *selection) reportShard(e *sets.ShardError) {
	text := e.Error()
	if s.shards[text] {
		return
	}
	if s.shards == nil {
		s.shards = make(map[string]bool)
	}
	s.shards[text] = true
	if s.opening.ServeUnrecovered && errors.Is(e, mmapfilter.ErrNeedsRecovery) {
		s.say(fmt.Sprintf("%s: the writer of shard %d has died, and it has not been recovered: any of its keys may be in it", s.path, e.Shard))
		return
	}
	s.limited = true
	s.report(e)
}
