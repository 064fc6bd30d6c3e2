package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mutationFlags holds the flags that add and del share.
type mutationFlags struct {
	format    *formatFlags
	plain     bool
	syncEvery uint64
	resume    bool
	verbose   bool
	open      mmapfilter.OpenOptions
}

// defaultSyncEvery is the number of records between syncs. Processing that many takes several
// times as long as a sync.
const defaultSyncEvery = 65536

func (m *mutationFlags) addTo(flags *pflag.FlagSet) {
	m.syncEvery = defaultSyncEvery
	flags.Func("sync-every", "records from one sync to the next", func(text string) (err error) {
		if m.syncEvery, err = parseCount(text); err == nil && m.syncEvery == 0 {
			err = errAtLeastOne
		}
		return err
	})
	flags.Func("log-bytes", "size of the log", func(text string) (err error) {
		m.open.LogBytes, err = parseSize(text)
		return err
	})
	flags.BoolVar(&m.resume, "resume", false, "resume an interrupted run")
	flags.BoolVarP(&m.verbose, "verbose", "v", false, "print how many keys were processed")
	flags.BoolVar(&m.plain, "plain", false, "ignore recorded settings")
	m.format = addFormatFlags(flags)
}

// A mutation is a run of add or del. It goes through its input once, in order, and records its
// progress in the filter as a marker. Before its first operation the filter has a marker of this
// run; after its last, one that says that the run has ended.
type mutation struct {
	*mutationFlags
	kind   runKind
	path   string
	filter *mmapfilter.Filter
	stderr io.Writer
	in     *input
	block  block
	bar    *progress
	start  time.Time
	// apply adds or deletes keys, in order, and returns how many it processed before the error.
	// That number excludes the refused key.
	apply func(keys [][]byte) (n int, err error)
	// syncAt is Filter.SyncAt. Tests replace it.
	syncAt func(seq uint64) error

	recorded format // how keys are read, according to the filter

	resumption             // what an earlier run has processed
	passed     recordCheck // records processed, in this run and before
	first      uint8       // check of the first record of a del, set before it is processed
	done       uint64      // records that this run has processed
	synced     uint64      // records passed at the last marker
	marked     bool        // the filter has a marker of this run
	changed    bool        // there were operations since the last marker
	warned     bool        // about a filter over its capacity
	err        error
	lost       bool // the changes may not be durable
}

// newMutation opens a filter for writing. The caller must set apply and call run.
func newMutation(cmd *cobra.Command, flags *mutationFlags, kind runKind, args []string) (*mutation, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%s needs a filter file", cmd.Name())
	}
	m := &mutation{mutationFlags: flags, kind: kind, path: args[0], stderr: cmd.ErrOrStderr(), start: time.Now()}
	sources, err := flags.format.sources(args[1:], cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	if err := sources.err(); err != nil {
		return nil, err
	}
	m.in = &input{sources: sources}
	m.block.limit = int(min(m.syncEvery, blockKeys))
	m.bar = new(progress)
	if !typed(sources) {
		m.bar = newProgress(m.stderr)
	}
	if m.filter, err = mmapfilter.Open(m.path, &m.open); err != nil {
		return nil, err
	}
	m.syncAt = m.filter.SyncAt
	if err := m.setFormat(); err != nil {
		return nil, errors.Join(err, m.filter.Close())
	}
	return m, nil
}

// typed reports whether a source may be a terminal, where a bar would interfere with typing.
func typed(s *sources) bool {
	for _, src := range s.list {
		if src.info != nil && src.info.Mode()&fs.ModeCharDevice != 0 {
			return true
		}
	}
	return false
}

// setFormat sets how keys are read: as the filter records, or as the flags say.
func (m *mutation) setFormat() error {
	var err error
	if m.recorded, err = recordedFormat(m.path, m.filter.Normalisation(), m.plain); err == nil {
		m.in.format, err = m.format.format(m.recorded)
	}
	return err
}

// run processes the input and closes the filter. When it returns, all changes are durable,
// unless lost is set.
func (m *mutation) run(ctx context.Context) error {
	m.begin()
	if m.err == nil {
		m.records(ctx)
	}
	m.bar.close()
	switch {
	case m.err == nil:
		m.end()
	case m.changed && !m.lost:
		// The refused key was an operation too, but a resumed run must start with it. So the
		// marker counts records.
		m.mark(false)
	}
	if err := m.filter.Close(); err != nil {
		m.lost = true
		m.fail(m.explain(err))
	}
	return m.err
}

// begin finds out what the previous run left, if this one resumes it. Any other run marks its
// start at once, so that it does not take earlier operations for its own. In an untouched
// filter, it marks its start with its first record.
func (m *mutation) begin() {
	seq, operations := m.filter.DurableSeq(), m.filter.DurableOps()
	switch {
	case m.resume:
		var err error
		if m.resumption, err = m.resumed(seq, operations); err != nil {
			m.fail(err)
		}
	case seq|operations != 0:
		m.mark(false)
	}
}

// end marks the run as successful. A run without records leaves an untouched filter untouched.
func (m *mutation) end() {
	if m.passed.records > 0 || m.filter.DurableSeq()|m.filter.DurableOps() != 0 {
		m.mark(true)
	}
}

// mark makes all changes durable, with the marker of the progress so far.
func (m *mutation) mark(ended bool) {
	next := m.passed.marker(m.kind, ended, m.filter.Len())
	if !ended && m.passed.records == 0 {
		next.first = m.first
	}
	seq := next.encode()
	if m.changed || m.filter.DurableSeq() != seq || m.filter.DurableOps() != 0 {
		if err := m.syncAt(seq); err != nil {
			m.lost = true
			m.fail(m.explain(err))
			return
		}
	}
	m.synced, m.marked, m.changed = m.passed.records, true, false
}

// records processes the records of the input.
func (m *mutation) records(ctx context.Context) {
	m.in.beforeRead = func() error {
		m.work()
		m.show()
		if m.err != nil {
			return io.EOF
		}
		return nil
	}
	for key, err := range m.in.keys(ctx) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err == nil {
			m.block.add(key, key, m.in.number)
			if m.block.full() {
				m.work()
			}
		} else {
			m.work()
			m.fail(explainMisfit(err, m.in.format, m.recorded, m.path))
		}
		if m.err != nil {
			return
		}
	}
	m.work()
	if m.err == nil {
		m.fail(m.tooShort())
	}
}

// work processes the block: it compares the records that an earlier run has processed, and adds
// or deletes the others.
func (m *mutation) work() {
	if m.err != nil || len(m.block.spans) == 0 {
		return
	}
	keys := m.block.keys()
	n, err := m.goOver(keys)
	if err == nil && n < len(keys) {
		var done int
		done, err = m.do(keys[n:])
		n += done
	}
	if err != nil {
		m.fail(m.explainAt(err, m.block.spans[n].number))
		return
	}
	m.block.clear()
	if m.passed.records-m.synced >= m.syncEvery && m.changed {
		m.mark(false)
	}
	m.warn()
}

// do adds or deletes keys, and returns how many were processed before the error.
func (m *mutation) do(keys [][]byte) (n int, err error) {
	if m.kind == delRun && m.passed.records == 0 { // deletes do not show which input they came from
		var check recordCheck
		check.add(keys[0])
		m.first, m.marked = uint8(check.first), false
	}
	if !m.marked {
		if m.mark(false); m.err != nil {
			return 0, m.err
		}
	}
	room := min(uint64(len(keys)), maxRecords-m.passed.records)
	m.changed = true
	n, err = m.apply(keys[:room])
	for _, key := range keys[:n] {
		m.passed.add(key)
	}
	m.done += uint64(n)
	if err == nil && n < len(keys) {
		err = fmt.Errorf("a run takes at most %s records; give the rest to another run", formatCount(uint64(maxRecords)))
	}
	return n, err
}

func (m *mutation) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// show shows the progress: the bytes read for files, the number of records for a pipe.
func (m *mutation) show() {
	stage := "deleting"
	switch {
	case m.passed.records < m.skip:
		stage = "comparing"
	case m.kind.adds():
		stage = "adding"
	}
	if total := m.in.sources.bytes; total > 0 {
		m.bar.show(stage, m.in.sources.read.Load(), total, nil)
		return
	}
	m.bar.show(stage, int64(m.passed.records), 0, func(n int64) string { return formatSpeed(n, time.Since(m.start)) })
}

// formatSpeed writes a number of records and their rate per second.
func formatSpeed(n int64, took time.Duration) string {
	speed := float64(n) / max(took, time.Millisecond).Seconds()
	return fmt.Sprintf("%s, %s a second", formatNumber(n, "record", "records"), formatCount(int64(speed)))
}

// warn says once that the filter holds more keys than it was sized for. It syncs first, because
// the rate is estimated from the file, which has only durable keys.
func (m *mutation) warn() {
	length, capacity := m.filter.Len(), m.filter.Cap()
	if m.warned || m.err != nil || !m.kind.adds() || length <= capacity || growing(m.filter) {
		return
	}
	m.warned = true
	if err := m.filter.Sync(); err != nil {
		m.lost = true
		m.fail(m.explain(err))
		return
	}
	s := m.filter.Stats()
	m.bar.hide()
	fmt.Fprintf(m.stderr, "mmapfilter: %s: over capacity: it holds %s and was sized for %s; its rate is now about %s (%s was asked for) and rises with each key\n",
		m.path, formatNumber(length, "key", "keys"), formatCount(capacity), formatRate(s.EstimatedRate), formatRate(s.TargetRate))
}

// explain adds the name of the filter to an error of a write. If the disk is full, it also says
// which part of the input is durable.
func (m *mutation) explain(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	durable := m.skip
	if last, ok := decodeMarker(m.filter.DurableSeq()); m.marked && ok {
		durable = last.records + m.filter.DurableOps()
	}
	kept := formatCount(durable) + " keys are durable; --resume continues"
	switch durable {
	case 0:
		kept = "nothing was changed"
	case 1:
		kept = "1 key is durable; --resume continues"
	}
	return fmt.Errorf("%s: disk full while writing %s.stash; %s", m.path, m.path, kept)
}

// explainAt says at which record of the input an error of the filter or of that record occurred.
func (m *mutation) explainAt(err error, number int) error {
	help := "build a larger one from all keys"
	if canGrow(m.filter) {
		help = "run: mmapfilter grow " + m.path
	}
	switch {
	case m.err != nil: // an error of a marker is complete
		return m.err
	case errors.Is(err, mmapfilter.ErrFull):
		return fmt.Errorf("%s: %w: it holds %s and was sized for %s; record %d of %s does not fit; %s",
			m.path, err, formatNumber(m.filter.Len(), "key", "keys"), formatCount(m.filter.Cap()), number, m.in.file, help)
	case errors.Is(err, mmapfilter.ErrFailed):
		return m.explain(err)
	}
	return fmt.Errorf("%s: record %d: %w", m.in.file, number, err)
}

// report says on standard error how many keys were processed: with --verbose, and after an error
// if they are kept.
func (m *mutation) report(what string) {
	switch {
	case m.err == nil && m.verbose:
	case m.err == nil || m.lost || m.done == 0:
		return
	case errors.Is(m.err, mmapfilter.ErrFull):
		what += ", and durable"
	default:
		what += ", and durable; --resume continues after them"
	}
	fmt.Fprintf(m.stderr, "mmapfilter: %s: %s\n", m.path, what)
}
