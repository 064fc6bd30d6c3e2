package wal

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// follows, an argument of testLive, makes the file a replica that keeps its hashes.
func follows(sb *layout.Superblock) {
	keepsHashes(sb)
	sb.SetSource(1)
	k := sb.Kept()
	k.Followed, k.Set = layout.Position{Number: 30, Chain: 31}, 32
	sb.SetKept(k)
}

// mark appends a mark record.
func (l *testLog) mark(followed layout.Position, set uint64) {
	r := NewMark(followed, set, uint32(l.operation))
	l.w.Append(r)
	l.kept.Followed, l.kept.Set = followed, set
	l.ops = append(l.ops, testOp{[]Record{*r}, l.contents()})
}

// TestMark: a mark record counts once its segment is committed, with the user sequence of this commit.
// Without the commit, only the operations before the mark count.
func TestMark(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(follows))
	before := l.w.End()
	l.mark(layout.Position{Number: 40, Chain: 41}, 42)
	if words := l.w.End() - before; words != markWords || words > MarkStores*recordWords {
		t.Errorf("a mark takes %d words", words)
	}
	l.commitAt(50)
	l.do(2, 1)
	l.commit()
	l.do(3, -1)
	reached := l.kept
	l.mark(layout.Position{Number: 60, Chain: 61}, 0)
	uncommitted := slices.Clone(l.words)
	if s, err := l.scanWords(t, uncommitted, l.durable); err != nil || s.Kept != (layout.Kept{At: reached.At, LeftOut: 3, Waiting: 2, Followed: layout.Position{Number: 40, Chain: 41}, Set: 42}) || s.UserSeq != 50 || s.Operation != 2 {
		t.Errorf("without the commit: %+v, %v", s, err)
	}
	l.commitAt(70)
	if s, err := l.scan(t, l.durable); err != nil || s.Kept != l.kept || s.Kept.Followed.Number != 60 || s.UserSeq != 70 || s.Operation != 0 {
		t.Errorf("with the commit: %+v, %v", s, err)
	}
	l.do(1, 1)
	if s, err := l.scan(t, l.durable); err != nil || s.Kept != l.kept || s.Operation != 1 {
		t.Errorf("with an operation after it: %+v, %v", s, err)
	}
}

// TestMarkOfAnotherFile covers L3: only the log of a replica that keeps its hashes may have marks.
func TestMarkOfAnotherFile(t *testing.T) {
	for name, change := range map[string]func(*layout.Superblock){
		"no hashes": nil, "hashes": keepsHashes, "a replica": func(sb *layout.Superblock) { sb.SetReplica(1, layout.Position{}) },
	} {
		l := newTestLog(make([]uint64, testWords), testLive(change))
		l.w.Append(NewMark(layout.Position{}, 1, 5))
		if _, err := Scan(l.words, l.words, l.sb, 0, nil); rule(err) != "L3" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBitsOfAMark covers L3: word 0 of a mark record has only the bits of markHead.
func TestBitsOfAMark(t *testing.T) {
	for bit := range 64 {
		if w0 := uint64(markHead ^ 1<<bit); valid(w0) {
			t.Errorf("%#x is valid", w0)
		}
	}
	m := NewMark(layout.Position{Number: 1, Chain: 2}, 3, 4)
	var w [maxRecordWords]uint64
	n := m.encode((*[maxRecordWords - 1]uint64)(w[:]))
	w[n] = 4 << 32
	if got := decodeRecord(w[:n+1]); got != *m || recordLength(w[0]) != markWords || w[1] != 1 || w[2] != 2 || w[3] != 3 {
		t.Errorf("%+v became %+v", m, got)
	}
}
