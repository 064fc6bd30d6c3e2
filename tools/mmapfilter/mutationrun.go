package main

import (
	"context"
	"fmt"
)

// run processes the input, closes the filter and says what it has done. All changes are durable then,
// unless lost is set. If a key was certainly not in the filter, del answers no.
func (m *mutation) run(ctx context.Context) error {
	keeps := m.filter != nil && m.filter.Stats().KeepsHashes
	m.process(ctx)
	m.report()
	if m.kind != delRun || m.skipped == 0 {
		return m.err
	}
	if m.done > m.skipped {
		fmt.Fprintf(m.stderr, "mmapfilter: %s: %s\n", m.path, strayWarning(keeps))
	}
	if m.err == nil {
		return errNo
	}
	return m.err
}

// process processes the input and closes the filter.
func (m *mutation) process(ctx context.Context) {
	m.begin()
	if m.err == nil {
		m.records(ctx)
	}
	m.bar.close()
	m.in.warn(m.stderr)
	switch {
	case m.err == nil:
		m.end()
	case m.changed && !m.lost:
		// The insert of the refused key is an operation too, but a resumed run must start with this
		// key. So the marker counts records, not operations.
		m.mark(false)
	}
	if err := m.to.Close(); err != nil {
		m.lost = true
		m.fail(m.explain(err))
	}
}

// begin finds out what the previous run has done, if this run resumes it. Any other run marks its
// start at once, so that earlier operations do not count as its own; but in an untouched filter, it
// marks its start together with its first record.
func (m *mutation) begin() {
	seq, operations := m.to.DurableSeq(), m.to.DurableOps()
	switch {
	case m.resume:
		var err error
		if m.resumption, err = m.resumed(seq, operations); err != nil {
			m.fail(err)
		}
	case seq|operations != 0:
		m.warnOfCut(seq, operations)
		m.mark(false)
	}
}

// warnOfCut warns of a run that does again what an earlier run has done in part: keys may be added, or
// deleted, twice.
func (m *mutation) warnOfCut(seq, operations uint64) {
	last, ok := decodeMarker(seq)
	if done := last.records + operations; ok && !last.ended && last.kind == m.kind && m.kind != addUniqueRun && done > 0 {
		fmt.Fprintf(m.stderr, "mmapfilter: %s: the last %v was cut off after %s, and this one begins anew; for the same input use --resume\n",
			m.path, m.kind, formatNumber(done, "record", "records"))
	}
}

// end marks the run as successful. A run without records leaves an untouched filter untouched.
func (m *mutation) end() {
	if m.passed.records > 0 || m.to.DurableSeq()|m.to.DurableOps() != 0 {
		m.mark(true)
	}
}

// mark makes all changes durable, with the marker of the progress so far.
func (m *mutation) mark(ended bool) {
	next := m.passed.marker(m.kind, ended, m.to.Len())
	if !ended && m.passed.records == 0 {
		next.first = m.first
	}
	if seq := next.encode(); m.changed || m.to.DurableSeq() != seq || m.to.DurableOps() != 0 {
		if err := m.to.SyncAt(seq); err != nil {
			m.lost = true
			m.fail(m.explain(err))
			return
		}
	}
	m.synced, m.marked, m.changed = m.passed.records, true, false
}

// records processes the records of the input.
func (m *mutation) records(ctx context.Context) {
	if err := m.in.each(ctx, &m.block, m.work); err != nil {
		m.fail(explainMisfit(err, m.in.format, m.recorded, m.path))
	} else {
		m.fail(m.tooShort())
	}
}

// work processes the block: it compares the records that an earlier run has processed, and adds
// or deletes the others.
func (m *mutation) work() error {
	m.show()
	keys := m.block.keys()
	if len(keys) == 0 {
		return nil
	}
	n, err := m.goOver(keys)
	if err == nil && n < len(keys) {
		var done int
		done, err = m.do(keys[n:])
		n += done
	}
	if err != nil {
		m.refused = m.block.spans[n].number
		m.fail(m.explainAt(err, m.refused))
		return m.err
	}
	m.block.clear()
	if m.passed.records-m.synced >= m.syncEvery && m.changed {
		m.mark(false)
	}
	m.warn()
	return m.err
}

// do adds or deletes keys, and returns how many were processed before the error.
func (m *mutation) do(keys [][]byte) (n int, err error) {
	if m.kind == delRun && m.passed.records == 0 { // a filter does not show which keys were deleted
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

// apply adds or deletes keys in their order, and returns how many it processed before the error. That
// number excludes the refused key.
func (m *mutation) apply(keys [][]byte) (n int, err error) {
	switch m.kind {
	case addUniqueRun:
		if len(m.added) < len(keys) {
			m.added = make([]bool, max(len(keys), blockKeys))
		}
		n, err = m.to.InsertUniqueBatch(keys, m.added)
		for _, added := range m.added[:n] {
			if !added {
				m.skipped++
			}
		}
		return n, err
	case delRun:
		for i, key := range keys {
			deleted, err := m.to.Delete(key)
			if err != nil {
				return i, err
			}
			if !deleted {
				m.skipped++
			}
		}
		return len(keys), nil
	case addRun:
		if m.verbose { // slower, since it looks up each key first
			m.was.ask(m.to, keys)
		}
		if n, err = m.to.InsertBatch(keys); m.verbose {
			m.was.count(keys[:n])
		}
	}
	return n, err
}
