package main

import (
	"context"
	"fmt"
	"io"
)

// run processes the input and closes the filter. When it returns, all changes are durable,
// unless lost is set.
func (m *mutation) run(ctx context.Context) error {
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

// begin finds out what the previous run has done, if this one resumes it. Any other run marks its
// start at once, so that earlier operations do not count as its own. In an untouched filter, it
// marks its start with its first record.
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
