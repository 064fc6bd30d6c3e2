package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mutationFlags are the flags that add and del have in common.
type mutationFlags struct {
	format    *formatFlags
	plain     bool
	syncEvery uint64
	resume    bool
	verbose   bool
	open      mmapfilter.OpenOptions
}

// defaultSyncEvery is how many records there are from one sync to the next. A
// sync takes a few milliseconds; this many records, some tens.
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
	flags.BoolVar(&m.resume, "resume", false, "go on with a run that ended early")
	flags.BoolVarP(&m.verbose, "verbose", "v", false, "print how many keys there were")
	flags.BoolVar(&m.plain, "plain", false, "forget what is recorded")
	m.format = addFormatFlags(flags)
}

// A mutation is a run of add or del: it goes through its input once, in order,
// and keeps in the filter how far it has come.
//
// The user sequence of the filter is a number of records of the input, and every
// key is one operation; so sequence and operations together are the number of
// records that were dealt with, whatever happened since.
type mutation struct {
	*mutationFlags
	path   string
	filter *mmapfilter.Filter
	in     *input
	block  block
	bar    *progress
	doing  string // for the bar
	// apply does it to keys, in their order, and gives the number of those that
	// were dealt with before the error. The key that is refused is not.
	apply func(keys [][]byte) (n int, err error)

	recorded format // how the filter says that keys are read

	skip   uint64 // records that an earlier run has dealt with
	read   uint64 // records read, those to be skipped among them
	done   uint64 // records dealt with, in this run and before
	synced uint64 // of them, those that the filter has been told of
	behind bool   // there were operations since then
	err    error
	lost   bool // what was done may not be durable
}

// newMutation opens a filter for writing. The caller has to call run.
func newMutation(cmd *cobra.Command, flags *mutationFlags, args []string) (*mutation, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%s needs a filter file", cmd.Name())
	}
	m := &mutation{mutationFlags: flags, path: args[0]}
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
	if sources.bytes > 0 {
		m.bar = newProgress(cmd.ErrOrStderr())
	}
	if m.filter, err = mmapfilter.Open(m.path, &m.open); err != nil {
		return nil, err
	}
	if err := m.setFormat(); err != nil {
		return nil, errors.Join(err, m.filter.Close())
	}
	return m, nil
}

// setFormat sets how keys are read: as recorded in the filter, or as the flags
// say.
func (m *mutation) setFormat() error {
	var err error
	if m.recorded, err = recordedFormat(m.path, m.filter, m.plain); err == nil {
		m.in.format, err = m.format.format(m.recorded)
	}
	return err
}

// run goes through the input and closes the filter. What was done is durable
// when it returns, unless lost.
func (m *mutation) run(ctx context.Context) error {
	m.begin()
	if m.err == nil {
		m.records(ctx)
	}
	m.bar.close()
	// A key that was refused was an operation too, and is to come first when
	// the run is resumed: the records are what counts.
	if m.behind && !m.lost {
		m.sync(m.done)
	}
	if err := m.filter.Close(); err != nil {
		m.lost = true
		m.fail(fmt.Errorf("close %s: %w", m.path, err))
	}
	return m.err
}

// sync makes durable what was done, and how far that is.
func (m *mutation) sync(done uint64) {
	if err := m.filter.SyncAt(done); err != nil {
		m.lost = true
		m.fail(err)
	}
	m.synced, m.behind = done, false
}

// begin finds out, for a run that is resumed, how far the one before came. Any
// other one counts from 0.
func (m *mutation) begin() {
	before := m.filter.DurableSeq() + m.filter.DurableOps()
	switch {
	case m.resume:
		m.skip, m.done, m.synced = before, before, before
	case before != 0:
		m.sync(0)
	}
}

// records goes through the records of the input.
func (m *mutation) records(ctx context.Context) {
	m.in.beforeRead = func() error {
		m.work()
		m.bar.show(m.doing, m.in.sources.read.Load(), m.in.sources.bytes, nil)
		if m.err != nil {
			return io.EOF
		}
		return nil
	}
	for key, err := range m.in.keys(ctx) {
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case err == nil && m.read < m.skip:
			m.read++
			continue
		case err == nil:
			m.read++
			m.block.add(key, key, m.in.number)
			if m.block.full() {
				m.work()
			}
		}
		if err != nil {
			m.work()
			m.fail(explainMisfit(err, m.in.format, m.recorded, m.path))
		}
		if m.err != nil {
			return
		}
	}
	m.work()
	if m.err == nil && m.read < m.skip {
		m.fail(fmt.Errorf("--resume: %s says that %s were dealt with, and there are %s: not the input of the run before",
			m.path, formatNumber(m.skip, "record", "records"), formatCount(m.read)))
	}
}

// work deals with the block.
func (m *mutation) work() {
	if m.err != nil || len(m.block.spans) == 0 {
		return
	}
	m.behind = true
	n, err := m.apply(m.block.keys())
	m.done += uint64(n)
	if err != nil {
		m.fail(fmt.Errorf("%s: record %d: %w", m.in.file, m.block.spans[n].number, explainFull(err, m.filter, m.path)))
		return
	}
	m.block.clear()
	if m.done-m.synced >= m.syncEvery {
		m.sync(m.done)
	}
}

func (m *mutation) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// explainFull adds to the error of a filter that is full how full it is.
func explainFull(err error, filter *mmapfilter.Filter, path string) error {
	if errors.Is(err, mmapfilter.ErrFull) {
		return fmt.Errorf("%w: %s holds %s and was sized for %s", err, path, formatNumber(filter.Len(), "key", "keys"), formatCount(filter.Cap()))
	}
	return err
}

// report says on standard error what became of the keys: where it was asked for,
// and after an error, if they are kept.
func (m *mutation) report(w io.Writer, what string) {
	if m.err != nil && !m.lost && m.done > m.skip {
		what += ", and that is durable; --resume goes on after them"
	} else if m.err != nil || !m.verbose {
		return
	}
	fmt.Fprintf(w, "mmapfilter: %s: %s\n", m.path, what)
}
