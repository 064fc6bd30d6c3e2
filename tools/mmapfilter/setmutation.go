package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

// A setMutation is a run of add or del on a set. It opens all shards for writing. Each has a log of its
// own, so no marker says how far the run has got, and it cannot be resumed.
type setMutation struct {
	*mutationFlags
	kind   runKind
	path   string
	set    *sets.Set
	stderr io.Writer
	in     *input
	block  block
	bar    *progress
	start  time.Time

	recorded format
	done     uint64 // records
	skipped  uint64 // keys not added, since they may be there, or not deleted, since they were not there
	was      uint64 // keys added that may have been there, with --verbose and without --unique
	unsynced uint64 // records since the last sync
	refused  int    // number of the record that an error is about, or 0
}

// ofSet reports whether the first argument is a set.
func ofSet(args []string) bool {
	if len(args) == 0 {
		return false
	}
	set, _ := sets.IsSet(args[0])
	return set
}

// runSetMutation runs add or del on a set.
func runSetMutation(cmd *cobra.Command, flags *mutationFlags, kind runKind, args []string) (err error) {
	if flags.resume {
		return &fileError{args[0], errors.New("--resume is not possible with a set, whose shards each have a log; to go on with an add, use --unique")}
	}
	m := &setMutation{mutationFlags: flags, kind: kind, path: args[0], stderr: cmd.ErrOrStderr(), start: time.Now(), bar: new(progress)}
	sources, err := flags.format.sources(args[1:], cmd.InOrStdin())
	if err != nil {
		return err
	}
	if err := sources.err(); err != nil {
		return err
	}
	m.in = &input{sources: sources, beforeRead: func() error { return nil }}
	if !typed(sources) {
		m.bar = newProgress(m.stderr)
	}
	defer m.bar.close()
	if m.set, err = sets.Open(m.path, &flags.open); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.set.Close()) }()
	if m.recorded, err = recordedFormat(m.path, m.set.Normalisation(), m.plain); err != nil {
		return err
	}
	if m.in.format, err = m.format.format(m.recorded); err != nil {
		return err
	}
	if err := m.set.OpenShards(); err != nil {
		return err
	}
	err = m.records(cmd.Context())
	m.bar.close()
	m.in.warn(m.stderr)
	if e := m.set.Sync(); e != nil {
		return errors.Join(err, e)
	}
	if m.verbose || err != nil && m.done > 0 {
		fmt.Fprintf(m.stderr, "mmapfilter: %s: %s\n", m.path, m.summary(err))
	}
	m.warn()
	if m.kind == delRun && m.skipped > 0 && m.done > m.skipped {
		fmt.Fprintf(m.stderr, "mmapfilter: %s: %s\n", m.path, strayWarning(false))
	}
	if err == nil && m.kind == delRun && m.skipped > 0 {
		return errNo
	}
	return err
}

// records processes the input, a block at a time.
func (m *setMutation) records(ctx context.Context) error {
	var failed error
	work := func() bool {
		failed = m.work()
		return failed == nil
	}
	m.in.beforeRead = func() error {
		if !work() {
			return io.EOF
		}
		m.show()
		return nil
	}
	for key, err := range m.in.keys(ctx) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			work()
			return errors.Join(failed, explainMisfit(err, m.in.format, m.recorded, m.path))
		}
		m.block.add(key, key, m.in.number)
		if m.block.full() && !work() {
			return failed
		}
	}
	if failed == nil {
		work()
	}
	return failed
}

func (m *setMutation) work() error {
	keys := m.block.keys()
	if len(keys) == 0 {
		return nil
	}
	done, err := m.apply(keys)
	m.done += uint64(done)
	m.unsynced += uint64(done)
	if err != nil {
		m.refused = m.block.spans[done].number
		if errors.Is(err, mmapfilter.ErrFull) {
			err = fmt.Errorf("%s: %w: record %d of %s does not fit", m.path, err, m.refused, m.in.file)
		}
	}
	m.block.clear()
	if err == nil && m.unsynced >= m.syncEvery {
		m.unsynced = 0
		err = m.set.Sync()
	}
	return err
}

// apply adds or deletes keys in order, and returns how many were processed before the error. It does so
// one by one: after an error, nobody would know which keys of a batch are in the set.
func (m *setMutation) apply(keys [][]byte) (done int, err error) {
	for _, key := range keys {
		did, was := true, false
		switch m.kind {
		case addRun:
			was = m.verbose && m.set.Contains(key)
			err = m.set.Insert(key)
		case addUniqueRun:
			did, err = m.set.InsertUnique(key)
		case delRun:
			did, err = m.set.Delete(key)
		}
		if err != nil {
			return done, err
		}
		if was {
			m.was++
		}
		if done++; !did {
			m.skipped++
		}
	}
	return done, nil
}

func (m *setMutation) show() {
	stage := "deleting"
	if m.kind.adds() {
		stage = "adding"
	}
	if total := m.in.sources.bytes; total > 0 {
		m.bar.show(stage, m.in.sources.read.Load(), total, nil)
		return
	}
	m.bar.show(stage, int64(m.done), 0, func(n int64) string { return formatSpeed(n, time.Since(m.start)) })
}

func (m *setMutation) summary(err error) string {
	n := m.done - m.skipped
	what := formatNumber(n, "key", "keys")
	switch m.kind {
	case addRun:
		what += " added"
		if m.was > 0 {
			what += fmt.Sprintf(", %s of them may have been there", formatCount(m.was))
		}
	case addUniqueRun:
		what += fmt.Sprintf(" added, %s left out", formatCount(m.skipped))
	case delRun:
		what += " deleted"
		if m.skipped > 0 {
			what += fmt.Sprintf(", %s certainly not there", formatCount(m.skipped))
		}
	}
	if err != nil {
		what += ", and durable"
	}
	if m.refused > 0 {
		what += fmt.Sprintf(": those before record %d of %s", m.refused, m.in.file)
	}
	return what
}

// warn says that the set holds more keys than it was sized for.
func (m *setMutation) warn() {
	if n, capacity := m.set.Len(), m.set.Cap(); m.kind.adds() && capacity > 0 && n > capacity {
		fmt.Fprintf(m.stderr, "mmapfilter: %s: over capacity: it holds %s and was sized for %s; its rate rises with each key\n",
			m.path, formatNumber(n, "key", "keys"), formatCount(capacity))
	}
}
