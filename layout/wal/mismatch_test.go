package wal

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestCommitMismatch covers L4, and checks that a commit record that does not match its
// records ends the log.
func TestCommitMismatch(t *testing.T) {
	build := func(change func(c *Commit)) (*testLog, Commit) {
		l := newTestLog(make([]uint64, testWords), testLive(nil))
		l.do(3, 1)
		c := Commit{UserSeq: 41, Operation: 6, Length: 101, Durable: 1000}
		change(&c)
		return l, l.w.Commit(c)
	}
	l, c := build(func(*Commit) {})
	if s, err := Scan(l.words, l.words, l.sb, c.LSN, nil); err != nil || s.UserSeq != 41 || s.Operation != 6 || s.Torn {
		t.Fatalf("%+v, %v", s, err)
	}
	l, _ = build(func(c *Commit) { c.Length = 102 })
	if _, err := Scan(l.words, l.words, l.sb, 0, nil); rule(err) != "L4" {
		t.Errorf("a wrong length: %v", err)
	}
	// A commit record whose own CRC is right, but not its CRC of the records.
	resign := func(l *testLog, word int, v uint64) {
		w := l.words[FirstWord+commitAt : FirstWord+commitAt+commitWords]
		w[word] = v
		w[9] &= 1<<32 - 1
		w[9] |= uint64(new(checker).words(w...)) << 32
	}
	for name, change := range map[string]func(l *testLog){
		"LSN":               func(l *testLog) { resign(l, 3, 1005) },
		"number of records": func(l *testLog) { resign(l, 4, 2) },
		"more records":      func(l *testLog) { resign(l, 4, 4) },
		"all records":       func(l *testLog) { resign(l, 4, ^uint64(0)) },
		"CRC":               func(l *testLog) { resign(l, 9, l.words[FirstWord+commitAt+9]^1) },
	} {
		l, _ := build(func(*Commit) {})
		change(l)
		if s, err := Scan(l.words, l.words, l.sb, 0, nil); err != nil || s.LSN >= 1004 || !s.Torn || s.UserSeq != 40 {
			t.Errorf("a wrong %s: %+v, %v", name, s, err)
		}
		if _, err := Scan(l.words, l.words, l.sb, 1004, nil); rule(err) != "L5" {
			t.Errorf("a wrong %s, promised: %v", name, err)
		}
	}
}

// TestBeginMismatch checks that a begin record with a right CRC that does not belong to the
// next segment of this generation ends the log, as if the segment were empty. If a commit has
// no records, only the begin record says which segment it follows.
func TestBeginMismatch(t *testing.T) {
	for name, change := range map[string]func(w []uint64){
		"generation": func(w []uint64) { w[1]++ },
		"salt":       func(w []uint64) { w[2]++ },
		"LSN":        func(w []uint64) { w[3]++ },
		"older LSN":  func(w []uint64) { w[3]-- },
		"check":      func(w []uint64) { w[4] ^= 1 },
	} {
		for _, records := range []int{0, 2} {
			l := newTestLog(make([]uint64, testWords), testLive(nil))
			l.do(2, 1)
			first := l.commit()
			at := l.w.Start() - segmentHeadWords
			if records > 0 {
				l.do(records, 1)
			}
			last := l.commitAt(77)
			if s, err := l.scan(t, last.LSN); err != nil || s.UserSeq != 77 {
				t.Fatalf("%+v, %v", s, err)
			}
			w := l.words[at : at+5]
			change(w)
			w[4] &= 1<<32 - 1
			w[4] |= uint64(new(checker).words(w...)) << 32
			if s, err := l.scan(t, 0); err != nil || s.LSN != first.LSN || s.UserSeq != 40 {
				t.Errorf("another %s, %d records: %+v, %v", name, records, s, err)
			}
			if _, err := l.scan(t, last.LSN); rule(err) != "L5" {
				t.Errorf("another %s, %d records, promised: %v", name, records, err)
			}
		}
	}
}

// TestCommitInsideAnOperation checks that a commit inside an operation does not count, but
// earlier operations do. No writer commits an incomplete operation.
func TestCommitInsideAnOperation(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
	l.do(2, 1)
	whole := l.w.LSN()
	l.w.Append(&Record{Block: layout.WordStash / 8, Words: 1})
	c := l.w.Commit(Commit{UserSeq: 41, Operation: l.operation, Length: l.length, Durable: 1000})
	s, err := l.scan(t, 0)
	if err != nil || s.LSN != whole || s.Records != 2 || s.UserSeq != 40 || !s.Torn {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := l.scan(t, c.LSN); rule(err) != "L5" {
		t.Errorf("promised: %v", err)
	}
}

// TestUnknownBitsOfARecord covers L3, as far as this package checks it.
func TestUnknownBitsOfARecord(t *testing.T) {
	const at = FirstWord + segmentHeadWords
	for bit := recordOthers; bit < 64; bit++ {
		l := newTestLog(make([]uint64, testWords), testLive(nil))
		l.w.Append(&Record{Block: layout.WordStash / 8, Words: 1 << 4, Last: true, Operation: 6})
		l.words[at] |= 1 << bit // of bits 52 and on, one counts as one word more, a value or a hash
		end := NextRecord(l.words, at) - 1
		l.words[at+2] = 0 // the check of the record before the bit was set; now a value
		l.words[end] = 6<<32 | uint64(new(checker).record(l.sb.LogSalt(), 1001, 0, l.words[at:end], 6))
		s, err := Scan(l.words, l.words, l.sb, 0, nil)
		if known := bit < recordOthers+3 || bit == 59; known != (err == nil && s.Records == 1) || !known && rule(err) != "L3" {
			t.Errorf("bit %d: %+v, %v", bit, s, err)
		}
	}
}

// TestLogHeader covers L1, as far as this package checks it.
func TestLogHeader(t *testing.T) {
	sb := testLive(nil)
	l := newTestLog(make([]uint64, testWords), sb)
	h, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt())
	if !ok || h != (Header{version: version, UUID: sb.UUID(), Generation: 8, Salt: 0x5A17, Bytes: MinBytes}) {
		t.Fatalf("%+v, %t", h, ok)
	}
	// The next generation leaves it alone.
	newTestLog(l.words, testLive(func(sb *layout.Superblock) { sb.SetGeneration(9); sb.SetLogSalt(1) }))
	if _, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt()); !ok {
		t.Error("the header is gone with the next generation")
	}
	if h, ok := FindHeader(l.words, sb.UUID(), 1); !ok || h.Generation != 9 {
		t.Errorf("%+v, %t", h, ok)
	}
	for _, other := range []uint64{0, 2} {
		if _, ok := FindHeader(l.words, sb.UUID(), other); ok {
			t.Errorf("salt %d leads to a header", other)
		}
	}
	if _, ok := FindHeader(l.words, [16]byte{1, 2, 4}, sb.LogSalt()); ok {
		t.Error("the UUID of another file leads to a header")
	}
	// Generation 8 uses the first slot. The caller checks whether the log has the size in
	// its header.
	for _, n := range []int{0, headerWords - 1} {
		if _, ok := FindHeader(l.words[:n], sb.UUID(), sb.LogSalt()); ok {
			t.Errorf("a log of %d words has a header", n)
		}
	}
	for i := range headerWords {
		for bit := range 64 {
			l.words[i] ^= 1 << bit
			if _, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt()); ok && (i != 7 || bit < 32) {
				t.Errorf("bit %d of word %d of the header does not count", bit, i)
			}
			l.words[i] ^= 1 << bit
		}
	}
}
