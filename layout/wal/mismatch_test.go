package wal

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestCommitMismatch covers L4, and checks that the log ends at a commit record that does not match its
// records.
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
	// resign changes a word of the commit record, and makes the CRC of the commit record valid again.
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

// TestCommitOfAnotherHistory covers L4: a commit is at the position that its records lead to.
func TestCommitOfAnotherHistory(t *testing.T) {
	build := func(change func(sb *layout.Superblock), at func(layout.Position) layout.Position) *testLog {
		l := newTestLog(make([]uint64, testWords), testLive(change))
		l.do(3, 1)
		l.note(layout.AtLeastOne)
		l.w.Commit(Commit{UserSeq: 41, Operation: 7, Length: 101, Durable: 1000, History: true, Mark: 2e18, At: at(l.kept.At)})
		return l
	}
	same := func(p layout.Position) layout.Position { return p }
	for name, c := range map[string]struct {
		at   func(layout.Position) layout.Position
		rule string
	}{
		"the same":       {same, "<nil>"},
		"another number": {func(p layout.Position) layout.Position { p.Number++; return p }, "L4"},
		"another chain":  {func(p layout.Position) layout.Position { p.Chain ^= 1 << 63; return p }, "L4"},
		"none":           {func(layout.Position) layout.Position { return layout.Position{} }, "L4"},
	} {
		l := build(keepsHashes, c.at)
		if _, err := Scan(l.words, l.words, l.sb, 0, nil); rule(err) != c.rule {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The superblock has another history before these records.
	l := build(keepsHashes, same)
	other := testLive(func(sb *layout.Superblock) {
		keepsHashes(sb)
		sb.SetKept(layout.Kept{At: layout.Position{Number: 70, Chain: 0xC4A0}})
	})
	if _, err := Scan(l.words, l.words, other, 0, nil); rule(err) != "L4" {
		t.Errorf("another history: %v", err)
	}
	// If no hashes are kept, the words for the time and the position mean nothing.
	l = newTestLog(make([]uint64, testWords), testLive(nil))
	l.do(3, 1)
	c := l.commit()
	for i := range keptWords {
		l.words[FirstWord+keptAt+i] = ^uint64(i)
	}
	if s, err := l.scan(t, c.LSN); err != nil || s.Time != 0 || s.Kept != (layout.Kept{}) {
		t.Errorf("no hashes: %+v, %v", s, err)
	}
}

// TestBeginMismatch checks that a begin record that has a valid CRC, but does not belong to the next
// segment of this generation, ends the log, as if the segment were empty. If a segment has no records,
// only its begin record says which segment it follows.
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

// TestCommitInsideAnOperation checks that a commit inside an operation does not count, but that the
// operations before it do. No writer commits an incomplete operation.
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

// scanRecord scans a log with one record, whose word 0 is w0 and whose check is valid.
func scanRecord(w0 uint64) (Contents, error) {
	const at = FirstWord + segmentHeadWords
	l := newTestLog(make([]uint64, testWords), testLive(keepsHashes))
	l.w.begin()
	l.words[at] = w0
	end := NextRecord(l.words, at) - 1
	l.words[end] = 6<<32 | uint64(new(checker).record(l.sb.LogSalt(), 1001, 0, l.words[at:end], 6))
	return Scan(l.words, l.words, l.sb, 0, nil)
}

// TestUnknownBitsOfARecord covers the part of L3 that this package checks: the bits of word 0.
func TestUnknownBitsOfARecord(t *testing.T) {
	check := func(w0 uint64, ok bool) {
		t.Helper()
		if s, err := scanRecord(w0); ok != (err == nil) || ok != (s.Records == 1) || !ok && rule(err) != "L3" {
			t.Errorf("%#x: %+v, %v", w0, s, err)
		}
	}
	const word, last = layout.WordStash + 4, recordLast
	check(word|last, true)
	check(word|last|recordGuarded, true)
	for bit := recordOthers; bit < recordOthers+layout.BlockWords-1; bit++ {
		check(word|last|1<<bit, bit < recordOthers+3) // the other bits are for words of the next block
	}
	for _, bits := range []uint64{recordNoWords, 1 << 62, 1 << 63} {
		check(word|last|bits, false)
	}
	for _, bits := range []uint64{recordGrow, recordShrink, 1 << recordOp, 2 << recordOp, 3 << recordOp, 3<<recordOp | recordGrow} {
		check(word|bits, false) // only the last record of an operation has these bits
	}
	// Only some pairs of operation and item effect are valid.
	for op := range uint64(4) {
		for effect := range uint64(4) {
			grow := []int{0, 1, -1, 2}[effect]
			ok := op == 0 && effect < 3
			for _, h := range histories {
				ok = ok || uint64(h.op) == op && h.grow == grow
			}
			check(word|last|op<<recordOp|effect*recordGrow, ok)
			check(recordNoWords|last|op<<recordOp|effect*recordGrow, ok && op != 0 && effect == 0)
		}
	}
	// A record without words has no other bits.
	check(recordNoWords|2<<recordOp, false)
	for bit := range 64 {
		if bit < 49 || bit > 51 && bit < 59 || bit > 61 {
			check(recordNoWords|last|2<<recordOp|1<<bit, false)
		}
	}
}

// TestLogHeader covers the part of L1 that this package checks.
func TestLogHeader(t *testing.T) {
	sb := testLive(nil)
	l := newTestLog(make([]uint64, testWords), sb)
	h, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt())
	if !ok || h != (Header{UUID: sb.UUID(), Generation: 8, Salt: 0x5A17, Bytes: MinBytes}) {
		t.Fatalf("%+v, %t", h, ok)
	}
	// The next generation leaves this header alone.
	newTestLog(l.words, testLive(func(sb *layout.Superblock) { sb.SetGeneration(9); sb.SetLogSalt(1) }))
	if _, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt()); !ok {
		t.Error("the next generation removed the header")
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
	// Generation 8 uses the first slot. The caller compares the size of the log with that in the header.
	for _, n := range []int{0, headerWords - 1} {
		if _, ok := FindHeader(l.words[:n], sb.UUID(), sb.LogSalt()); ok {
			t.Errorf("a log of %d words has a header", n)
		}
	}
	for i := range headerWords {
		for bit := range 64 {
			l.words[i] ^= 1 << bit
			if _, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt()); ok && (i != 7 || bit < 32) {
				t.Errorf("a flipped bit %d of word %d of the header is not found", bit, i)
			}
			l.words[i] ^= 1 << bit
		}
	}
}
