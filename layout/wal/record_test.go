package wal

import (
	"reflect"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

func TestRecordKeepsItsFields(t *testing.T) {
	check := func(r Record) {
		t.Helper()
		var w [maxRecordWords]uint64
		n := r.encode((*[maxRecordWords - 1]uint64)(w[:]))
		w[n] = uint64(r.Operation)<<32 | 0x1234
		if got := decodeRecord(w[:n+1]); got != r || !valid(w[0]) || recordLength(w[0]) != uint64(n)+1 {
			t.Fatalf("%+v became %+v", r, got)
		}
	}
	for _, block := range []uint64{0, 1, layout.WordRegion, 1<<recordWordBits/layout.BlockWords - 1} {
		for words := 1; words < 1<<layout.BlockWords; words++ {
			r := Record{Block: block, Words: uint8(words), Guarded: words%3 == 0}
			for i := range r.Values {
				if words>>i&1 != 0 {
					r.Values[i] = ^block * uint64(i+1)
				}
			}
			check(r)
			r.Last, r.Operation = true, 0xFFFFFFF0+uint32(block)
			for r.Grow = -1; r.Grow <= 1; r.Grow++ {
				check(r)
			}
			r.Hash = uint64(words)
			for _, h := range histories {
				r.Op, r.Grow = h.op, h.grow
				check(r)
			}
		}
	}
	for _, h := range histories {
		if h.grow == 0 {
			check(Record{Last: true, Op: h.op, Hash: ^uint64(0), Operation: 7})
		}
	}
}

// histories lists the operations that a history can have, each with its possible item effects.
var histories = []struct {
	op   layout.Op
	grow int
}{{layout.Insert, 1}, {layout.Delete, -1}, {layout.Delete, 0}, {layout.AtLeastOne, 1}, {layout.AtLeastOne, 0}}

// TestGather checks that consecutive stores to one block become one record, which has the last value of
// each word, and is guarded if any of the stores is.
func TestGather(t *testing.T) {
	const at = layout.WordRegion + 16
	stores := []Store{{at + 5, 1, false}, {at + 2, 2, true}, {at + 5, 3, false}, {at + 8, 4, false}, {at, 5, false}, {at + 7, 6, false}}
	want := []Record{
		{Block: at / 8, Words: 1<<2 | 1<<5, Values: [8]uint64{2: 2, 5: 3}, Guarded: true},
		{Block: at/8 + 1, Words: 1, Values: [8]uint64{4}},
		{Block: at / 8, Words: 1 | 1<<7, Values: [8]uint64{0: 5, 7: 6}},
	}
	var got []Record
	for len(stores) > 0 {
		var r Record
		stores = r.Gather(stores)
		got = append(got, r)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	var seen []uint64
	got[0].Each(func(word, value uint64) { seen = append(seen, word, value) })
	if !slices.Equal(seen, []uint64{at + 2, 2, at + 5, 3}) || got[1].Counter() != layout.CounterOf(at+8) {
		t.Errorf("%v, counter %d", seen, got[1].Counter())
	}
}

func TestLogKeepsWhatIsPutIn(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
	if s, err := l.scan(t, 0); err != nil || !reflect.DeepEqual(s, Contents{LSN: 1000, UserSeq: 40, Operation: 5, Length: 100, End: [2]uint64{FirstWord}}) {
		t.Fatalf("an empty log: %+v, %v", s, err)
	}
	l.do(1, 1)
	l.do(7, -1)
	if c := l.commit(); c.LSN != 1009 || c.Records != 8 || l.w.LSN() != 1009 || l.w.records != 0 {
		t.Errorf("%+v", c)
	}
	l.do(3, 0)
	l.do(2, 1)
	want := l.ops[3].end
	want.Records = 13
	if s, err := l.scan(t, 1009); err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("an open segment: %+v, %v; want %+v", s, err, want)
	}
	l.commitAt(50)
	l.do(1, 1)
	if s, err := l.scan(t, 1015); err != nil || !reflect.DeepEqual(s, Contents{LSN: 1016, Records: 14, UserSeq: 50, Operation: 1, Length: 102, End: [2]uint64{l.w.End()}}) {
		t.Errorf("after a new user sequence: %+v, %v", s, err)
	}
	if l.w.End()/PageWords != FirstWord/PageWords+2 {
		t.Errorf("the third segment is at word %d", l.w.End())
	}
	if r, next := ReadRecord(l.words, l.w.Start()); l.w.records != 1 || r != l.ops[4].records[0] || next != l.w.End() {
		t.Errorf("the last segment begins with %+v", r)
	}
}

// TestRecordWithoutWords checks the shortest record, which has an operation of the history but no store.
func TestRecordWithoutWords(t *testing.T) {
	var r Record
	if rest := r.Gather(nil); rest != nil || r != (Record{}) {
		t.Fatalf("%+v, %v", r, rest)
	}
	l := newTestLog(make([]uint64, testWords), testLive(keepsHashes))
	l.note(layout.Delete)
	if bytes := (l.w.End() - l.w.Start()) * 8; bytes != RecordBytes {
		t.Errorf("the record takes %d bytes", bytes)
	}
	at := l.w.Start()
	if head, hash := uint64(recordNoWords|recordLast|2<<recordOp), l.ops[0].records[0].Hash; l.words[at] != head || l.words[at+1] != hash {
		t.Errorf("the record is %#x", l.words[at:at+3])
	}
	got, next := ReadRecord(l.words, at)
	if got != l.ops[0].records[0] || next != l.w.End() {
		t.Errorf("%+v up to word %d", got, next)
	}
	got.Each(func(word, value uint64) { t.Errorf("the record stores %#x to word %d", value, word) })
}

// TestLogOfAHistory checks that a scan adds all operations, committed or not, to the history in the
// superblock, and that it returns the times of commits.
func TestLogOfAHistory(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(keepsHashes))
	check := func(records uint64, at, leftOut, waiting uint64) {
		t.Helper()
		want := l.contents()
		want.Records = records
		s, err := l.scan(t, 0)
		if err != nil || !reflect.DeepEqual(s, want) {
			t.Errorf("%+v, %v; want %+v", s, err, want)
		}
		if s.Kept.At.Number != at || s.Kept.LeftOut != leftOut || s.Kept.Waiting != waiting {
			t.Errorf("%+v", s.Kept)
		}
	}
	l.do(2, 1)
	l.do(1, 0) // leaves its key out, but stores a word
	l.note(layout.AtLeastOne)
	check(4, 73, 5, 2)
	l.commit()
	if s, err := l.scan(t, 0); err != nil || s.Time != 1e18+1e9 || s.Kept != l.kept {
		t.Errorf("committed: %+v, %v", s, err)
	}
	l.note(layout.Delete)
	l.do(1, -1)
	check(6, 75, 5, 3)
	l.commit()
	scanned, err := Scan(l.words, l.words, l.sb, l.w.LSN(), nil)
	ended := slices.Collect(Ended(l.words, l.sb.Generation(), l.sb.LogSalt()))
	if err != nil || len(ended) != 2 || !slices.Equal(ended, scanned.Segments) || ended[1].Commit.Mark != 1e18+2e9 {
		t.Errorf("%+v, %v; ended: %+v", scanned, err, ended)
	}
}

// TestLogOfAReplica checks that the position and the set of a replica are those of the last commit, or
// those of the superblock if there is no commit, whatever the records are.
func TestLogOfAReplica(t *testing.T) {
	first, next := layout.Position{Number: 70, Chain: 0xC4A1}, layout.Position{Number: 90, Chain: 5}
	l := newTestLog(make([]uint64, testWords), testLive(func(sb *layout.Superblock) { sb.SetReplica(7, first) }))
	check := func(want layout.Kept) {
		t.Helper()
		s, err := Scan(l.words, l.words, l.sb, l.w.LSN(), nil)
		if err != nil || s.Kept != want || s.Time != 0 || s.Length != l.length || s.Operation != l.operation {
			t.Errorf("%+v, %v; want %+v", s, err, want)
		}
	}
	l.do(2, 1)
	check(layout.Kept{At: first})
	f := NewFollower(l.sb)
	for _, k := range []layout.Kept{{At: first, Set: 9}, {At: next}, {At: next, Set: layout.Departed}} {
		l.w.Commit(Commit{UserSeq: l.userSeq, Operation: l.operation, Length: l.length, History: true, Mark: k.Set, At: k.At})
		check(k)
		if !f.Next(l.words, l.w.LSN()) || f.At != k.At || f.Mark != k.Set {
			t.Errorf("the Follower is at %+v, not %+v", f.Commit, k)
		}
		l.do(1, 1)
		check(k)
	}
}

// TestRoom fills the first half of logs of a few pages. As many records as Room says must fit, and no
// store may be outside the half or in its committed part.
func TestRoom(t *testing.T) {
	for pages := uint64(3); pages <= 6; pages++ {
		for committed := range pages {
			l := newTestLog(make([]uint64, (2*pages-HeaderSlots)*PageWords), testLive(nil))
			for range min(committed, pages-HeaderSlots) {
				l.do(1, 0)
				l.commit()
			}
			done := len(l.stored)
			first, room := l.w.End(), l.w.Room()
			if left := pages*PageWords - min(first, pages*PageWords); room != left/recordWords {
				t.Errorf("%d pages, %d commits: room for %d records in %d words", pages, committed, room, left)
			}
			for i := range room {
				if l.w.Room() != room-i {
					t.Fatalf("room for %d records, after %d of %d were appended", l.w.Room(), i, room)
				}
				l.do(1, 0)
			}
			if l.w.End() > pages*PageWords && room > 0 || l.w.Room() != 0 {
				t.Errorf("%d pages: the last record ends at word %d; room for %d", pages, l.w.End(), l.w.Room())
			}
			if room > 0 {
				l.commit()
			}
			for _, word := range l.stored[done:] {
				if word < first-segmentHeadWords || word >= pages*PageWords {
					t.Fatalf("%d pages, records from word %d on: a store to word %d", pages, first, word)
				}
			}
			if s, err := l.scan(t, l.w.LSN()); err != nil || s.LSN != l.w.LSN() {
				t.Errorf("%d pages, full: %+v, %v", pages, s, err)
			}
			if l.w.Room() != 0 {
				t.Errorf("%d pages, full: room for %d", pages, l.w.Room())
			}
		}
	}
	if w := NewWriter(make([]uint64, FirstWord+3), nil, 1, 1, 0); w.Room() != 0 {
		t.Errorf("a log without a segment has room for %d", w.Room())
	}
}

// TestOperationNumberWraps checks that a scan restores whole operation numbers, although records have
// only the low half of each.
func TestOperationNumberWraps(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(func(sb *layout.Superblock) { sb.SetOperation(5<<32 - 3) }))
	for i := range uint64(6) {
		l.do(2, 0)
		if i == 1 {
			l.operation += 1 << 31 // operations that change nothing, and have no record
		}
		if s, err := l.scan(t, 0); err != nil || s.Operation != l.ops[i].end.Operation {
			t.Errorf("operation %d: %+v, %v", l.ops[i].end.Operation, s, err)
		}
	}
	if l.operation>>32 != 5 {
		t.Errorf("operation %#x did not wrap", l.operation)
	}
}

// TestForeign: a log belongs to another file if it has headers, but none of this file. The UUID that the
// first operation after a seal gives the file belongs to this file, too.
func TestForeign(t *testing.T) {
	own, other, next := [16]byte{1}, [16]byte{2}, NextUUID([16]byte{1}, 7)
	for _, c := range []struct {
		headers [HeaderSlots][16]byte
		foreign bool
	}{{}, {[HeaderSlots][16]byte{own}, false}, {[HeaderSlots][16]byte{next}, false}, {[HeaderSlots][16]byte{other}, true},
		{[HeaderSlots][16]byte{other, own}, false}, {[HeaderSlots][16]byte{own, other}, false}, {[HeaderSlots][16]byte{other, next}, false}} {
		log := make([]uint64, HeaderSlots*PageWords)
		for slot, uuid := range c.headers {
			if uuid != [16]byte{} {
				PutHeader(func(i, v uint64) { log[i] = v }, Header{UUID: uuid, Generation: uint64(slot), Salt: 7, Bytes: 1 << 20})
			}
		}
		if uuid, foreign := Foreign(log, own); foreign != c.foreign || foreign && uuid != other {
			t.Errorf("%v: %v, %t", c.headers, uuid, foreign)
		}
	}
}
