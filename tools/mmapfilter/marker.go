package main

import (
	"fmt"

	"github.com/zeebo/xxh3"
)

// A marker says how far a run of add or del has got in its input. These commands store it as the
// user sequence of the filter. Every record of the input is one operation. So a run has processed
// the records that the marker counts, plus one for each operation since.
//
//	bits 63-56  tag: 0xb0, plus twice the kind of the run, plus 1 if it has ended
//	     55-48  of an add that has not ended: keys in the filter, modulo 256;
//	            else: check of the first record, which a del stores before it deletes that record
//	     47-36  check of all counted records
//	     35-0   number of counted records
//
// If a marker counts no records, its checks are 0, except that a del that has not ended may already
// have the check of its first record. The checks are bits of a recordCheck: the low bits of its
// hash of the first record, the high bits of its hash of all records. The marker of an ended add of
// "pear", "apple", "" and "plum" is
//
//	0xb1_0d_e89_000000004
//
// The number of keys shows whether an insert succeeded or found the filter full, which is an
// operation too. It also reveals later deletes by other programs.
type marker struct {
	kind    runKind
	ended   bool
	first   uint8 // only for an ended run or a del
	length  uint8 // only for an add that has not ended
	all     uint16
	records uint64
}

// A runKind is what a run does with keys.
type runKind uint8

const (
	addRun runKind = iota
	addUniqueRun
	delRun
	runKinds
)

func (k runKind) String() string { return [...]string{"add", "add --unique", "del"}[k] }

// adds reports whether the run leaves its processed records in the filter.
func (k runKind) adds() bool { return k != delRun }

// command and verb return words for messages.
func (k runKind) command() string {
	if k.adds() {
		return "add"
	}
	return "del"
}

func (k runKind) verb() string {
	if k.adds() {
		return "add"
	}
	return "delete"
}

const (
	markerTag     = 0xb0
	markerEnded   = 1
	markerTagAt   = 56
	markerExtraAt = 48 // where first or length is
	markerAllAt   = 36
	markerAllBits = markerExtraAt - markerAllAt
	maxRecords    = 1<<markerAllAt - 1
)

// encode returns the user sequence. The number of records must be at most maxRecords.
func (m marker) encode() uint64 {
	tag, extra := markerTag+2*uint64(m.kind), m.first
	if m.ended {
		tag += markerEnded
	} else if m.kind.adds() {
		extra = m.length
	}
	return tag<<markerTagAt | uint64(extra)<<markerExtraAt | uint64(m.all)<<markerAllAt | m.records
}

// decodeMarker returns false for a sequence that is not a marker.
func decodeMarker(seq uint64) (m marker, ok bool) {
	tag := seq >> markerTagAt
	if tag < markerTag || tag >= markerTag+2*uint64(runKinds) {
		return marker{}, false
	}
	m = marker{
		kind:    runKind((tag - markerTag) / 2),
		ended:   tag&markerEnded != 0,
		all:     uint16(seq >> markerAllAt & (1<<markerAllBits - 1)),
		records: seq & maxRecords,
	}
	extra := uint8(seq >> markerExtraAt)
	if m.ended || !m.kind.adds() {
		m.first = extra
	} else {
		m.length = extra
	}
	if m.records == 0 && (m.ended && m.first != 0 || m.all != 0) {
		return marker{}, false
	}
	return m, true
}

// A recordCheck identifies the records of an input by their number and a hash of all of them, in
// order.
type recordCheck struct {
	records uint64
	first   uint64 // hash of the first record
	all     uint64
}

// add adds the key of the next record.
func (c *recordCheck) add(key []byte) {
	c.all = xxh3.HashSeed(key, c.all)
	if c.records == 0 {
		c.first = c.all
	}
	c.records++
}

// marker returns the marker of a run that has processed these records, in a filter that holds
// length keys.
func (c *recordCheck) marker(kind runKind, ended bool, length uint64) marker {
	m := marker{kind: kind, ended: ended, all: uint16(c.all >> (64 - markerAllBits)), records: c.records}
	if ended || !kind.adds() {
		m.first = uint8(c.first)
	} else {
		m.length = uint8(length)
	}
	return m
}

// describeSequence describes a user sequence as a row of a table: how far add or del has got in its
// input, or the number that another program has set.
func describeSequence(seq, operations uint64) (name, text string) {
	m, ok := decodeMarker(seq)
	if !ok {
		return "sequence", formatSequence(seq, operations)
	}
	text = fmt.Sprintf("%v, %s", m.kind, formatNumber(m.records, "record", "records"))
	switch {
	case m.ended && operations == 0:
		text += ", ended"
	case m.ended:
		text += fmt.Sprintf(", ended, and %s after it", formatNumber(operations, "operation", "operations"))
	case operations == 0:
		text += ", not ended"
	default:
		text += fmt.Sprintf(" and %s more, not ended", formatCount(operations))
	}
	return "input", text
}

// formatSequence writes the user sequence of a filter, and how many operations followed it.
func formatSequence(seq, operations uint64) string {
	return fmt.Sprintf("%s, and %s after it", formatCount(seq), formatNumber(operations, "operation", "operations"))
}
