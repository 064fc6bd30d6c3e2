package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery"
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
	create    *createFlags // how to create a filter that is missing; nil not to create it
}

// defaultSyncEvery is the number of records between syncs: enough that syncs take a small part of
// the time.
const defaultSyncEvery = 65536

func (m *mutationFlags) addTo(flags *pflag.FlagSet) {
	m.syncEvery = defaultSyncEvery
	m.open.Checked = true
	flags.Func("sync-every", "make keys durable after every `N` (65536)", func(text string) (err error) {
		if m.syncEvery, err = parseCount(text); err == nil && m.syncEvery == 0 {
			err = errAtLeastOne
		}
		return err
	})
	flags.Func("log-bytes", "size `S` of the log; a larger log is faster", func(text string) (err error) {
		m.open.LogBytes, err = parseSize(text)
		return err
	})
	flags.BoolVar(&m.resume, "resume", false,
		"compare the input with the keys of the last run, and go on with those after them. If that run completed and "+
			"the first key differs, begin at the first. Fail if something else has changed FILTER")
	flags.BoolVarP(&m.verbose, "verbose", "v", false, "print how many keys were added or deleted, and how many of the added ones may have been in the filter before")
	m.format = addFormatFlags(flags)
	addPlainFlag(flags, &m.plain)
}

// A mutation is a run of add or del. It goes through its input once, in order, and records its
// progress in the filter as a marker. Before the first operation of a run, the filter gets a
// marker of this run; after the last one, it gets a marker that says that the run has ended. A
// set has no markers.
type mutation struct {
	*mutationFlags
	kind     runKind
	path     string
	to       writable
	filter   *mmapfilter.Filter // the same as to; nil for a set
	stderr   io.Writer
	in       *input
	block    block
	bar      *progress
	start    time.Time
	recorded format // how keys are read, according to the filter

	resumption             // how much an earlier run has processed
	passed     recordCheck // records processed, in this run and before
	first      uint8       // check of the first record of a del, set before it is processed
	done       uint64      // records that this run has processed
	synced     uint64      // records passed at the last marker
	marked     bool        // the filter has a marker of this run
	changed    bool        // there were operations since the last marker
	added      []bool      // which keys of a batch were added, with --unique
	skipped    uint64      // keys that were left out, or were certainly not in the filter
	was        presence    // of the keys added, without --unique and with --verbose
	refused    int         // number of the record that an error is about, or 0
	warned     bool        // warn has said that the filter is over its capacity
	err        error
	lost       bool // the changes may not be durable

}

// A resumption is what a run knows about the run that it resumes. The new run first reads the
// records that the old run processed. It compares them with the marker and, if they should be in
// the filter, with the filter. It changes nothing until it has compared all of these records,
// because it cannot read its input twice.
type resumption struct {
	last marker
	skip uint64 // records to compare

	// The last run has ended. The first record shows whether this input is the same or another
	// one.
	undecided bool
}

// newMutation opens a filter or a set for writing. The caller must call run.
func newMutation(cmd *cobra.Command, flags *mutationFlags, kind runKind, args []string) (*mutation, error) {
	if flags.resume && isSet(args[0]) {
		return nil, &fileError{args[0], errors.New("--resume cannot be used with a set, since each shard has its own log; to go on with an add, use --unique")}
	}
	m := &mutation{mutationFlags: flags, kind: kind, path: args[0], stderr: cmd.ErrOrStderr(), start: time.Now()}
	var err error
	if m.in, err = flags.format.input(args[1:], cmd.InOrStdin()); err != nil {
		return nil, err
	}
	m.block.limit = int(min(m.syncEvery, blockKeys))
	m.bar = new(progress)
	if !typed(m.in.sources) {
		m.bar = newProgress(m.stderr)
	}
	if m.to, err = openWritable(m.path, &flags.open, flags.create); err != nil {
		return nil, err
	}
	m.filter, _ = m.to.(*mmapfilter.Filter)
	if m.recorded, err = m.format.read(m.in, m.path, m.to.Normalisation(), m.plain); err != nil {
		return nil, errors.Join(err, m.to.Close())
	}
	why := new(recovery.HashesError)
	if lost := lostHashes(m.path); lost != nil && !(errors.As(lost, &why) && why.Lacking) {
		fmt.Fprintf(m.stderr, "mmapfilter: %s: cannot keep the hashes of its keys: %s; from now on some are missing, also if the file is opened under another name\n",
			m.path, whatOfHashes(m.path, lost))
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
	length, capacity := m.to.Len(), m.to.Cap()
	if m.warned || m.err != nil || !m.kind.adds() || length <= capacity {
		return
	}
	rate := "its rate"
	if m.filter == nil && capacity == 0 { // no flag has set a size
		return
	} else if m.filter != nil {
		if growing(m.filter) {
			return
		}
		if err := m.filter.Sync(); err != nil {
			m.lost = true
			m.fail(m.explain(err))
			return
		}
		s := m.filter.Stats()
		rate = fmt.Sprintf("its rate is now about %s (%s was asked for) and", formatRate(s.EstimatedRate), formatRate(s.TargetRate))
	}
	m.warned = true
	m.bar.hide()
	fmt.Fprintf(m.stderr, "mmapfilter: %s: over capacity: it holds %s and was sized for %s; %s rises with each key\n",
		m.path, formatNumber(length, "key", "keys"), formatCount(capacity), rate)
}

// explain adds the name of the filter to an error of a write. If the disk is full, it also says
// which part of the input is durable.
func (m *mutation) explain(err error) error {
	switch {
	case m.filter == nil: // the error names the shard
		return err
	case errors.Is(err, mmapfilter.ErrReplaced):
		return fmt.Errorf("%s: %w; if it was renamed, rename it back: %s has operations that it lacks",
			m.path, mmapfilter.ErrReplaced, logOf(m.path))
	case !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: %w", m.path, err)
	}
	durable := m.skip
	if last, ok := decodeMarker(m.to.DurableSeq()); m.marked && ok {
		durable = last.records + m.to.DurableOps()
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

// explainAt adds to an error of the filter, or of a record, the number of that record in the input.
func (m *mutation) explainAt(err error, number int) error {
	help := "build a larger one from all keys"
	if m.filter != nil && canGrow(m.filter) {
		help = "run: mmapfilter grow " + m.path
	}
	var copies *mmapfilter.CopiesError
	switch {
	case m.err != nil: // an error of a marker is complete
		return m.err
	case errors.As(err, &copies):
		return fmt.Errorf("%s: record %d of %s does not fit: the filter has %s of its key, and even a larger filter would have no room for more",
			m.path, number, m.in.file, formatNumber(copies.Copies, "copy", "copies"))
	case errors.Is(err, mmapfilter.ErrFull) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)):
		return fmt.Errorf("%s: %w: record %d of %s does not fit; make room, and --resume continues", m.path, err, number, m.in.file)
	case errors.Is(err, mmapfilter.ErrFull):
		return fmt.Errorf("%s: %w: it holds %s and was sized for %s; record %d of %s does not fit; %s",
			m.path, err, formatNumber(m.to.Len(), "key", "keys"), formatCount(m.to.Cap()), number, m.in.file, help)
	case errors.Is(err, mmapfilter.ErrFailed), m.filter == nil:
		return m.explain(err)
	}
	return fmt.Errorf("%s: record %d: %w", m.in.file, number, err)
}

// strayWarning is the warning after a del with keys that were certainly not in the filter. Then
// other keys were probably not in the filter either, but the filter took them for keys that it has.
func strayWarning(keepsHashes bool) string {
	text := "some keys were certainly not there; if others were never added either, each has deleted a key that looks like it (see del --help)"
	if keepsHashes {
		text += "; verify counts such keys, and grow gives them back"
	}
	return text
}

// report prints to standard error how many keys were processed: with --verbose, and after an error
// if the changes are durable.
func (m *mutation) report() {
	what := m.summary()
	switch {
	case m.err == nil && m.verbose:
	case m.err == nil || m.lost || m.done == 0:
		return
	case m.filter == nil && m.refused > 0:
		what += fmt.Sprintf(", and durable: those before record %d of %s", m.refused, m.in.file)
	case m.filter == nil || errors.Is(m.err, mmapfilter.ErrFull):
		what += ", and durable"
	default:
		what += ", and durable; --resume continues after them"
	}
	fmt.Fprintf(m.stderr, "mmapfilter: %s: %s\n", m.path, what)
}

func (m *mutation) summary() string {
	what := formatNumber(m.done-m.skipped, "key", "keys")
	switch {
	case m.kind == addUniqueRun:
		return what + fmt.Sprintf(" added, %s left out", formatCount(m.skipped))
	case m.kind == addRun && m.was.total > 0:
		return what + fmt.Sprintf(" added (%s of them may have been there)", formatCount(m.was.total))
	case m.kind == addRun:
		return what + " added"
	case m.skipped > 0:
		return what + fmt.Sprintf(" deleted, %s certainly not there", formatCount(m.skipped))
	}
	return what + " deleted"
}
