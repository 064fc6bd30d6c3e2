package main

import (
	"fmt"
)

// resumed finds out what the last run has done, from the marker and the number of operations since.
func (m *mutation) resumed(seq, operations uint64) (r resumption, err error) {
	if seq|operations == 0 { // nothing has changed the filter yet
		return r, nil
	}
	last, ok := decodeMarker(seq)
	switch {
	case !ok || last.ended && operations > 0:
		return r, m.changedByOthers()
	case last.kind.adds() && last.ended && m.kind == delRun: // nothing has been deleted yet
		return r, nil
	case last.kind.adds() != m.kind.adds():
		return r, fmt.Errorf("%s: the last change was by %v, so there is no %s to resume; omit --resume to %s all keys",
			m.path, last.kind, m.kind.command(), m.kind.verb())
	case last.ended:
		return resumption{last: last, skip: last.records, undecided: last.records > 0}, nil
	}
	r = resumption{last: last, skip: last.records + operations}
	// Each operation of an add has added a key, except a last one that found the filter full.
	if last.kind == addRun {
		grown := uint8(m.to.Len()) - last.length // modulo 256
		switch missing := uint8(operations) - grown; {
		case missing == 1 && operations > 0:
			r.skip--
		case missing != 0:
			return r, m.changedByOthers()
		}
	}
	return r, nil
}

// goOver compares the first keys with the records that the last run processed, and returns how many
// it compared. An error is about the key with that index.
func (m *mutation) goOver(keys [][]byte) (n int, err error) {
	if m.passed.records >= m.skip {
		return 0, nil
	}
	keys = keys[:min(uint64(len(keys)), m.skip-m.passed.records)]
	found := m.found(keys)
	if err := m.to.Err(); err != nil {
		return 0, err
	}
	if m.undecided {
		m.undecided = false
		var check recordCheck
		check.add(keys[0])
		if first := check.marker(m.kind, true, 0).first; first != m.last.first || !found[0] {
			m.resumption = resumption{} // another input
			return 0, nil
		}
	}
	for i, key := range keys {
		if !found[i] {
			return i, m.notTheInput("certainly not in " + m.path)
		}
		m.passed.add(key)
		if m.kind == delRun && m.passed.records == 1 && uint8(m.passed.first) != m.last.first {
			return i, m.notTheInput("not the first record of the last del")
		}
		if m.passed.records == m.last.records && m.passed.marker(m.kind, false, 0).all != m.last.all {
			return i, m.notTheInput("the records up to here differ")
		}
	}
	return len(keys), nil
}

// found looks up keys that should be in the filter. After a del, nobody knows whether the filter
// had the keys, so it reports all of them as found.
func (m *mutation) found(keys [][]byte) []bool {
	found := make([]bool, len(keys))
	if m.kind.adds() {
		m.to.ContainsBatch(keys, found)
		return found
	}
	for i := range found {
		found[i] = true
	}
	return found
}

// tooShort returns the error of an input that is shorter than what the last run has processed.
func (m *mutation) tooShort() error {
	if m.passed.records >= m.skip {
		return nil
	}
	return fmt.Errorf("%s: %w", m.path, m.notTheInput(fmt.Sprintf("the input has %s of %s", formatCount(m.passed.records), formatNumber(m.skip, "record", "records"))))
}

// notTheInput returns the error of an input that differs from the input of the last run.
func (m *mutation) notTheInput(why string) error {
	which := "completed with another input"
	if !m.last.ended {
		which = "was interrupted and had another input, or something else has changed " + m.path
	}
	return fmt.Errorf("%s: the last %s %s; omit --resume to %s all keys of this input", why, m.kind.command(), which, m.kind.verb())
}

// changedByOthers returns the error of a filter that no longer shows what the last run did.
func (m *mutation) changedByOthers() error {
	return fmt.Errorf("%s: something else, or the expiry of keys, has changed it since the last %s; omit --resume to %s all keys",
		m.path, m.kind.command(), m.kind.verb())
}
