package wal

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestLogIsCutAnywhere stops the writer after each of its stores, as the death of its process would. A
// scan must then return exactly the complete operations.
func TestLogIsCutAnywhere(t *testing.T) {
	t.Run("no hashes", func(t *testing.T) { cutAnywhere(t, nil) })
	t.Run("hashes", func(t *testing.T) { cutAnywhere(t, keepsHashes) })
}

func cutAnywhere(t *testing.T, change func(*layout.Superblock)) {
	l := newTestLog(make([]uint64, testWords), testLive(change))
	l.do(1, 1)
	l.further = 3
	l.do(5, 1)
	l.commit()
	l.further = 7
	l.do(3, -1)
	if l.sb.KeepsHashes() {
		l.note(layout.Delete)
	}
	l.commitAt(60)
	l.commit()
	l.do(2, 1)
	whole := slices.Clone(l.words)
	for n := range len(l.stored) + 1 {
		words := make([]uint64, len(whole))
		for _, i := range l.stored[:n] {
			words[i] = whole[i]
		}
		s, err := l.scanWords(t, words, 0)
		if err != nil {
			t.Fatalf("after %d stores: %v", n, err)
		}
		complete, last := uint64(0), uint64(0)
		for _, op := range l.ops {
			if end := op.end.End[0]; slices.Contains(l.stored[:n], end-1) {
				complete += uint64(len(op.records))
				last = max(last, op.end.LSN)
			}
		}
		if s.Records != complete || s.LSN < max(last, 1000) {
			t.Errorf("after %d stores: %+v; want %d records", n, s, complete)
		}
	}
}

// TestTornRecord changes one word of a log at a time. Records before the change count; those after it do
// not, even if they are intact. If a commit record or a promise says that lost records were durable, the
// scan returns an error (L5).
func TestTornRecord(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(keepsHashes))
	for range 3 {
		l.do(4, 1)
		l.do(2, 1)
		l.commit()
	}
	last := l.commits[2]
	for _, word := range slices.Compact(slices.Sorted(slices.Values(l.stored))) {
		if word < FirstWord {
			continue
		}
		segment := word / PageWords * PageWords
		before := 1000 + (word-FirstWord)/PageWords*7
		l.words[word] ^= 1 << (word % 64)
		s, err := Scan(l.words, l.words, l.sb, 0, nil)
		_, promisedErr := Scan(l.words, l.words, l.sb, last.LSN, nil)
		inLast := segment == FirstWord+2*PageWords
		if s.LSN < before || s.LSN >= last.LSN || rule(promisedErr) != "L5" {
			t.Errorf("word %d: %+v, %v; promised: %v", word, s, err, promisedErr)
		}
		// The commit record of the last segment says that the segments before it were durable.
		if inLast != (err == nil) || err != nil && rule(err) != "L5" {
			t.Errorf("word %d: %+v, %v", word, s, err)
		}
		if at := word % PageWords; at >= segmentHeadWords && s.LSN > before+(at-segmentHeadWords)/recordWords {
			t.Errorf("word %d: the changed record counts: %+v", word, s)
		}
		l.words[word] ^= 1 << (word % 64)
	}
}

// TestOlderGeneration checks that a scan of a log that began again ignores what is left of the previous
// generation, even if LSNs and checks fit.
func TestOlderGeneration(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
	for range 4 {
		l.do(2, 1)
		l.commit()
	}
	for name, change := range map[string]func(*layout.Superblock){
		"salt and generation": func(sb *layout.Superblock) { sb.SetGeneration(10); sb.SetLogSalt(0x5A18) },
		"generation":          func(sb *layout.Superblock) { sb.SetGeneration(10) },
		"salt":                func(sb *layout.Superblock) { sb.SetLogSalt(0x5A18) },
		"LSN":                 func(sb *layout.Superblock) { sb.SetCheckpointLSN(999) },
	} {
		sb := testLive(change)
		if s, err := Scan(l.words, l.words, sb, 0, nil); s.Records != 0 || s.LSN != sb.CheckpointLSN() || err != nil && name != "LSN" {
			t.Errorf("another %s: %+v, %v", name, s, err)
		}
		next := newTestLog(slices.Clone(l.words), sb)
		next.do(2, 1)
		next.commit()
		if s, err := next.scan(t, 0); name != "LSN" && (err != nil || s.LSN != next.w.LSN()) {
			t.Errorf("another %s: %+v, %v", name, s, err)
		}
	}
}

// TestLookahead covers L5: a commit record says what was durable when it was stored, even if a damaged
// segment separates it from the rest of the log.
func TestLookahead(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
	for range 5 {
		l.do(2, 1)
		l.commit()
	}
	if _, err := l.scan(t, l.w.LSN()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.scan(t, l.w.LSN()+1); rule(err) != "L5" {
		t.Errorf("a promise of more records than the log has: %v", err)
	}
	// Of the segments from 2 on, only one is left. It says that the segments before it were durable.
	for survivor := 2; survivor < 5; survivor++ {
		words := slices.Clone(l.words)
		for i := 2; i < 5; i++ {
			if i != survivor {
				clear(words[FirstWord+i*PageWords : FirstWord+(i+1)*PageWords])
			}
		}
		_, err := l.scanWords(t, words, 0)
		if survivor == 2 && err != nil || survivor > 2 && rule(err) != "L5" {
			t.Errorf("with segment %d: %v", survivor, err)
		}
	}
	for i := range 4 {
		clear(l.words[FirstWord+i*PageWords : FirstWord+(i+1)*PageWords])
	}
	s, err := l.scan(t, 0)
	if rule(err) != "L5" || s.Records != 0 {
		t.Errorf("with the last segment alone: %+v, %v", s, err)
	}
	// An empty log is no error: the superblock promises only its checkpoint LSN.
	if s, err := Scan(make([]uint64, testWords), make([]uint64, testWords), l.sb, 0, nil); err != nil || s.LSN != 1000 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestLaterGeneration covers L2.
func TestLaterGeneration(t *testing.T) {
	older := testLive(nil)
	newer := testLive(func(sb *layout.Superblock) { sb.SetGeneration(9); sb.SetLogSalt(0x5A18) })
	words := newTestLog(make([]uint64, testWords), older).words
	l := newTestLog(words, newer)
	first, _ := Half(testWords, newer.Generation())
	if LaterGeneration(l.words, older) {
		t.Error("a header is taken for a record")
	}
	l.do(1, 1)
	if !LaterGeneration(l.words, older) || LaterGeneration(l.words, newer) {
		t.Error("the generation of a begin record is not found")
	}
	l.commit()
	l.words[first] ^= 1
	if !LaterGeneration(l.words, older) || LaterGeneration(l.words, newer) {
		t.Error("the generation of a commit record is not found")
	}
	l.words[first+commitAt] ^= 1
	if LaterGeneration(l.words, older) {
		t.Error("a generation is found in a page with neither record")
	}
	l.do(1, 1)
	if !LaterGeneration(l.words, older) {
		t.Error("the generation of the second page is not found")
	}
	if LaterGeneration(l.words, testLive(func(sb *layout.Superblock) { sb.SetUUID([16]byte{9}) })) {
		t.Error("a generation of this file is found in the log of another file")
	}
	l.words[first+commitAt] ^= 1
	PutHeader(func(i, v uint64) { l.words[i] = v }, Header{UUID: older.UUID(), Generation: 10, Salt: 1, Bytes: MinBytes})
	clear(l.words[FirstWord:])
	if !LaterGeneration(l.words, older) || LaterGeneration(l.words, newer) {
		t.Error("a header does not show that the superblock before it was durable")
	}
}

// TestNextGeneration scans a log whose writer went on in the other half, or in another log. The records
// of the next generation count only if they follow all records of the generation in the superblock.
func TestNextGeneration(t *testing.T) {
	for _, moved := range []bool{false, true} {
		l := newTestLog(make([]uint64, testWords), testLive(nil))
		l.do(3, 1)
		l.commit()
		l.do(2, 1)
		last := l.commit()
		log, next := l.words, l.words
		if moved {
			next = make([]uint64, 2*testWords)
			l.words = next
		}
		store := func(i, v uint64) { next[i] = v }
		h := Header{UUID: l.sb.UUID(), Generation: l.sb.Generation() + 1, Salt: NextSalt(l.sb.LogSalt()), Bytes: int64(len(next)) * 8}
		PutHeader(store, h)
		l.w = l.w.Next(next, each(store))
		l.do(4, -1)
		l.commit()
		l.do(1, 1)
		end := l.ops[3].end
		scan := func(promised uint64) (Contents, error) { return Scan(log, next, l.sb, promised, nil) }
		if s, err := scan(0); err != nil || s.LSN != end.LSN || s.Length != end.Length || s.Records != 10 || s.End[1] != l.w.End() || s.Torn {
			t.Fatalf("moved %t: %+v, %v", moved, s, err)
		}
		if LaterGeneration(log, l.sb) || LaterGeneration(next, l.sb) {
			t.Errorf("moved %t: the next generation counts as a later one", moved)
		}
		if rested := testLive(func(sb *layout.Superblock) { sb.SetState(layout.Clean) }); !moved && !LaterGeneration(next, rested) {
			t.Error("for a file at rest, the next generation does not count as a later one")
		}
		// Once the superblock names the next generation, a scan begins with it.
		named := testLive(func(sb *layout.Superblock) {
			sb.SetGeneration(h.Generation)
			sb.SetLogSalt(h.Salt)
			sb.SetCheckpointLSN(last.LSN)
			sb.SetLength(102)
			sb.SetOperation(7)
		})
		if s, err := Scan(next, next, named, 0, nil); err != nil || s.LSN != end.LSN || s.Length != end.Length || s.Records != 5 || s.End[1] != 0 {
			t.Errorf("moved %t: %+v, %v", moved, s, err)
		}
		// Without its header, the next generation is still found, by its records.
		half, _ := Half(uint64(len(next)), h.Generation)
		header := h.Generation % HeaderSlots * PageWords
		next[header] ^= 1
		if s, err := scan(0); err != nil || s.LSN != end.LSN {
			t.Errorf("moved %t, without a header: %+v, %v", moved, s, err)
		}
		next[header] ^= 1
		// A tear in the generation before it ends the log. The next one proves that records are lost.
		first, _ := Half(uint64(len(log)), l.sb.Generation())
		log[first+segmentHeadWords] ^= 1
		if s, err := scan(0); rule(err) != "L5" || s.Records != 0 || s.End[1] != 0 {
			t.Errorf("moved %t, after a tear: %+v, %v", moved, s, err)
		}
		log[first+segmentHeadWords] ^= 1
		// The log also ends where the next generation is not chained to the one before.
		next[half+4] ^= 1
		if s, err := scan(0); err != nil || s.LSN != last.LSN {
			t.Errorf("moved %t, not chained: %+v, %v", moved, s, err)
		}
		if _, err := scan(end.LSN); rule(err) != "L5" {
			t.Errorf("moved %t, not chained: %v", moved, err)
		}
	}
}
