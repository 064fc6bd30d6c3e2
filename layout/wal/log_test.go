package wal

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	_ "github.com/mmapfilter/mmapfilter/layout/all"

	"github.com/mmapfilter/mmapfilter/layout"
)

const testWords = MinBytes / 8

// testLive gives the superblock of a live file, of generation 7, with 100 items
// and 5 operations after user sequence 40, whose log goes on after LSN 1000.
func testLive(change func(*layout.Superblock)) *layout.Superblock {
	g, err := layout.NewGeometry(layout.Blocked, layout.Params{FingerprintBits: 12, BucketSize: 5}, 100)
	if err != nil {
		panic(err)
	}
	sb := new(layout.Superblock)
	sb.SetGeneration(7)
	sb.SetState(layout.Live)
	sb.SetGeometry(g)
	sb.SetSeed(42)
	sb.SetUUID([16]byte{1, 2, 3})
	sb.SetCapacity(3800)
	sb.SetTargetRate(0.01)
	sb.SetDesignLoad(0.95)
	sb.SetLength(100)
	sb.SetLogSalt(0x5A17)
	sb.SetCheckpointLSN(1000)
	sb.SetUserSeq(40)
	sb.SetOperation(5)
	sb.SetLogBytes(MinBytes)
	if change != nil {
		change(sb)
	}
	sb.Sign()
	return sb
}

// A testLog is a log with what was put into it.
type testLog struct {
	words   []uint64
	sb      *layout.Superblock
	w       *Writer
	stored  []uint64 // the words in the order in which they were stored to
	ops     []testOp
	further uint64 // words of a record, up to 7

	length, userSeq, operation, durable uint64
	commits                             []Commit
}

// A testOp is an operation in a log.
type testOp struct {
	records []Record
	end     Contents // what the log holds with it as the last one
}

func newTestLog(words []uint64, sb *layout.Superblock) *testLog {
	l := &testLog{words: words, sb: sb, length: sb.Length(), userSeq: sb.UserSeq(), operation: sb.Operation(), durable: sb.CheckpointLSN()}
	store := func(i, v uint64) {
		l.words[i] = v
		l.stored = append(l.stored, i)
	}
	PutHeader(store, Header{UUID: sb.UUID(), Generation: sb.Generation(), Salt: sb.LogSalt(), Bytes: int64(len(words)) * 8})
	l.w = NewWriter(words, each(store), sb.Generation(), sb.LogSalt(), sb.CheckpointLSN())
	return l
}

// each stores values one by one.
func each(store func(i, v uint64)) func(word uint64, values []uint64) {
	return func(word uint64, values []uint64) {
		for i, v := range values {
			store(word+uint64(i), v)
		}
	}
}

// do appends an operation of n records that adds grow items.
func (l *testLog) do(n, grow int) {
	l.operation++
	l.length += uint64(int64(grow))
	var records []Record
	for i := range n {
		word := layout.WordStash + l.w.LSN()*37%4000
		stores := []Store{{Word: word, Value: 0x9E3779B97F4A7C15 * l.w.LSN(), Guarded: i%3 == 1}}
		for further := range l.further {
			stores = append(stores, Store{Word: word ^ (further + 1), Value: word * further})
		}
		var r Record
		if rest := r.Gather(stores); rest != nil {
			panic("a block is one record")
		}
		if i == n-1 {
			r.Last, r.Grow, r.Operation = true, grow, uint32(l.operation)
		}
		l.w.Append(&r)
		records = append(records, r)
	}
	l.ops = append(l.ops, testOp{records, Contents{LSN: l.w.LSN(), UserSeq: l.userSeq, Operation: l.operation, Length: l.length, End: l.w.End()}})
}

func (l *testLog) commit() Commit {
	c := l.w.Commit(Commit{UserSeq: l.userSeq, Operation: l.operation, Length: l.length, Durable: l.durable})
	l.commits = append(l.commits, c)
	l.durable = c.LSN
	return c
}

// commitAt is commit with a new user sequence.
func (l *testLog) commitAt(seq uint64) Commit {
	l.userSeq, l.operation = seq, 0
	return l.commit()
}

// scan scans the log, and holds the records that it calls each with against
// those that were put in.
func (l *testLog) scan(t testing.TB, promised uint64) (Contents, error) {
	t.Helper()
	return l.scanWords(t, l.words, promised)
}

func (l *testLog) scanWords(t testing.TB, words []uint64, promised uint64) (Contents, error) {
	t.Helper()
	var got, want []Record
	s, err := Scan(words, l.sb, promised, func(r Record) { got = append(got, r) })
	if uint64(len(got)) != s.Records {
		t.Fatalf("the scan counts %d records and gave %d", s.Records, len(got))
	}
	for _, op := range l.ops {
		if len(want) < len(got) {
			want = append(want, op.records...)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d records are not the first %d that were put in", len(got), len(want))
	}
	var again []Record
	for _, b := range s.Segments {
		for at, n := b.Start, uint64(0); n < b.Records; n++ {
			var r Record
			r, at = ReadRecord(words, at)
			again = append(again, r)
		}
	}
	if !slices.Equal(got, again) {
		t.Fatal("the segments of the scan are not its records")
	}
	s.Segments = nil
	return s, err
}

// rule gives the number of the rule that an error names.
func rule(err error) string {
	e := new(layout.CorruptError)
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	name, _, _ := strings.Cut(e.Rule, ":")
	return name
}

func TestRecordKeepsItsFields(t *testing.T) {
	for _, block := range []uint64{0, 1, layout.WordRegion, 1<<recordWordBits/layout.BlockWords - 1} {
		for words := 1; words < 1<<layout.BlockWords; words++ {
			for flags := range 4 {
				for grow := -1; grow <= 1; grow++ {
					r := Record{Block: block, Words: uint8(words), Guarded: flags&1 != 0, Last: flags&2 != 0}
					for i := range r.Values {
						if words>>i&1 != 0 {
							r.Values[i] = ^block * uint64(i+1)
						}
					}
					if r.Last {
						r.Grow, r.Operation = grow, 0xFFFFFFF0+uint32(block)
					}
					var w [layout.BlockWords + 2]uint64
					n := r.encode((*[layout.BlockWords + 1]uint64)(w[:]))
					w[n] = uint64(r.Operation)<<32 | 0x1234
					if got := decodeRecord(w[:n+1]); got != r || w[0]&recordUnused != 0 || !oneBlock(w[0]) || recordLength(w[0]) != uint64(n)+1 {
						t.Fatalf("%+v became %+v", r, got)
					}
				}
			}
		}
	}
}

// TestGather: stores to one block that follow one another are one record, with the
// last value of each word, guarded if one of them is.
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
	if s, err := l.scan(t, 0); err != nil || !reflect.DeepEqual(s, Contents{LSN: 1000, UserSeq: 40, Operation: 5, Length: 100, End: FirstWord}) {
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
	if s, err := l.scan(t, 1015); err != nil || !reflect.DeepEqual(s, Contents{LSN: 1016, Records: 14, UserSeq: 50, Operation: 1, Length: 102, End: l.w.End()}) {
		t.Errorf("after a new user sequence: %+v, %v", s, err)
	}
	if l.w.End()/PageWords != FirstWord/PageWords+2 {
		t.Errorf("the third segment is at word %d", l.w.End())
	}
	if r, next := ReadRecord(l.words, l.w.Start()); l.w.records != 1 || r != l.ops[4].records[0] || next != l.w.End() {
		t.Errorf("the last segment begins with %+v", r)
	}
}

// TestEmptyCommits: a commit without records takes a page, and keeps its user
// sequence.
func TestEmptyCommits(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
	n := uint64(0)
	for l.w.Room() > 0 {
		n++
		l.commitAt(100 + n)
	}
	if n != testWords/PageWords-HeaderSlots || l.w.Room() != 0 {
		t.Errorf("%d commits fit", n)
	}
	if s, err := l.scan(t, 1000+n); err != nil || s.LSN != 1000+n || s.UserSeq != 100+n || s.Operation != 0 || s.Length != 100 || s.Records != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestRoom fills logs to their last word: what Room says fits, and no store is
// outside the log or before what is committed.
func TestRoom(t *testing.T) {
	for pages := uint64(3); pages <= 6; pages++ {
		for committed := range pages {
			l := newTestLog(make([]uint64, pages*PageWords), testLive(func(sb *layout.Superblock) { sb.SetLogBytes(int64(pages) * PageBytes) }))
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
					t.Fatalf("room for %d records where there was for %d, and %d were appended", l.w.Room(), room, i)
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

// TestOperationNumberWraps: records keep the low half of it.
func TestOperationNumberWraps(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(func(sb *layout.Superblock) { sb.SetOperation(5<<32 - 3) }))
	for i := range uint64(6) {
		l.do(2, 0)
		if i == 1 {
			l.operation += 1 << 31 // operations that changed nothing
		}
		if s, err := l.scan(t, 0); err != nil || s.Operation != l.ops[i].end.Operation {
			t.Errorf("operation %d: %+v, %v", l.ops[i].end.Operation, s, err)
		}
	}
	if l.operation>>32 != 5 {
		t.Errorf("operation %#x did not wrap", l.operation)
	}
}

// TestLogIsCutAnywhere stops the writer after each of its stores, as the death
// of its process does: what the log then holds is the operations that were
// complete.
func TestLogIsCutAnywhere(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
	l.do(1, 1)
	l.further = 3
	l.do(5, 1)
	l.commit()
	l.further = 7
	l.do(3, -1)
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
			if end := op.end.End; slices.Contains(l.stored[:n], end-1) {
				complete += uint64(len(op.records))
				last = max(last, op.end.LSN)
			}
		}
		if s.Records != complete || s.LSN < max(last, 1000) {
			t.Errorf("after %d stores: %+v; %d records were complete", n, s, complete)
		}
	}
}

// TestTornRecord changes the words of a log one after the other. What is before
// the change counts, and what comes after does not, even where it is whole; it is
// an error where anyone vouches for it (L5).
func TestTornRecord(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
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
		s, err := Scan(l.words, l.sb, 0, nil)
		_, promisedErr := Scan(l.words, l.sb, last.LSN, nil)
		inLast := segment == FirstWord+2*PageWords
		if s.LSN < before || s.LSN >= last.LSN || rule(promisedErr) != "L5" {
			t.Errorf("word %d: %+v, %v; promised: %v", word, s, err, promisedErr)
		}
		// The commit record of the last segment vouches for the one before.
		if inLast != (err == nil) || err != nil && rule(err) != "L5" {
			t.Errorf("word %d: %+v, %v", word, s, err)
		}
		if at := word % PageWords; at >= segmentHeadWords && s.LSN > before+(at-segmentHeadWords)/recordWords {
			t.Errorf("word %d: a changed record counts: %+v", word, s)
		}
		l.words[word] ^= 1 << (word % 64)
	}
}

// TestChain: segments that are whole by themselves count only where they follow
// each other.
func TestChain(t *testing.T) {
	make3 := func() *testLog {
		l := newTestLog(make([]uint64, testWords), testLive(nil))
		l.do(2, 1)
		l.commit()
		l.do(2, 1)
		l.commit()
		l.do(2, 1)
		l.commit()
		return l
	}
	l := make3()
	page := func(words []uint64, i int) []uint64 {
		return words[FirstWord+i*PageWords : FirstWord+(i+1)*PageWords]
	}
	// The same number of records in the first segment, but other ones.
	other := newTestLog(make([]uint64, testWords), testLive(nil))
	other.do(1, 0)
	other.do(1, 1)
	other.commit()
	other.do(2, 1)
	other.commit()
	for name, change := range map[string]func(){
		"an old second segment":    func() { copy(page(l.words, 1), page(other.words, 1)) },
		"the second segment twice": func() { copy(page(l.words, 2), page(l.words, 1)) },
		"segments in wrong order":  func() { copy(page(l.words, 1), page(l.words, 2)) },
		"the first segment again":  func() { copy(page(l.words, 1), page(l.words, 0)) },
		"no second segment":        func() { clear(page(l.words, 1)) },
		"no first segment":         func() { clear(page(l.words, 0)) },
		"an empty page, and more":  func() { copy(page(l.words, 3), page(l.words, 2)); clear(page(l.words, 2)) },
	} {
		l = make3()
		change()
		s, err := Scan(l.words, l.sb, 0, nil)
		if s.LSN >= l.commits[2].LSN {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if _, err := Scan(l.words, l.sb, l.commits[2].LSN, nil); rule(err) != "L5" {
			t.Errorf("%s, promised: %v", name, err)
		}
	}
}

// TestOlderGeneration: a log that begins again does not count what is left of
// the generation before, even where LSNs and checks fit.
func TestOlderGeneration(t *testing.T) {
	l := newTestLog(make([]uint64, testWords), testLive(nil))
	for range 4 {
		l.do(2, 1)
		l.commit()
	}
	for name, change := range map[string]func(*layout.Superblock){
		"salt and generation": func(sb *layout.Superblock) { sb.SetGeneration(8); sb.SetLogSalt(0x5A18) },
		"generation":          func(sb *layout.Superblock) { sb.SetGeneration(8) },
		"salt":                func(sb *layout.Superblock) { sb.SetLogSalt(0x5A18) },
		"LSN":                 func(sb *layout.Superblock) { sb.SetCheckpointLSN(999) },
	} {
		sb := testLive(change)
		if s, err := Scan(l.words, sb, 0, nil); s.Records != 0 || s.LSN != sb.CheckpointLSN() || err != nil && name != "LSN" {
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

// TestLookahead bears L5: a commit record past a bad one vouches for what was
// durable when it was stored, even where nothing leads to it.
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
		t.Errorf("a promise of more than there is: %v", err)
	}
	// The segments from 2 on are gone but for one, which vouches for those
	// before it.
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
	// A checkpoint vouches for itself alone.
	if s, err := Scan(make([]uint64, testWords), l.sb, 0, nil); err != nil || s.LSN != 1000 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestLaterGeneration bears L2.
func TestLaterGeneration(t *testing.T) {
	older := testLive(nil)
	newer := testLive(func(sb *layout.Superblock) { sb.SetGeneration(8); sb.SetLogSalt(0x5A18) })
	words := newTestLog(make([]uint64, testWords), older).words
	l := newTestLog(words, newer)
	if LaterGeneration(l.words, older) {
		t.Error("a header is a record")
	}
	l.do(1, 1)
	if !LaterGeneration(l.words, older) || LaterGeneration(l.words, newer) {
		t.Error("a begin record does not show its generation")
	}
	l.commit()
	l.words[FirstWord] ^= 1
	if !LaterGeneration(l.words, older) || LaterGeneration(l.words, newer) {
		t.Error("a commit record does not show its generation")
	}
	l.words[FirstWord+commitAt] ^= 1
	if LaterGeneration(l.words, older) {
		t.Error("a page with neither record shows a generation")
	}
	l.do(1, 1)
	if !LaterGeneration(l.words, older) {
		t.Error("the second page does not show its generation")
	}
	if LaterGeneration(l.words, testLive(func(sb *layout.Superblock) { sb.SetUUID([16]byte{9}) })) {
		t.Error("the log of another file shows a generation of this one")
	}
}

// TestCommitMismatch bears L4, and that a commit record that is not that of its
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
	if s, err := Scan(l.words, l.sb, c.LSN, nil); err != nil || s.UserSeq != 41 || s.Operation != 6 || s.Torn {
		t.Fatalf("%+v, %v", s, err)
	}
	l, _ = build(func(c *Commit) { c.Length = 102 })
	if _, err := Scan(l.words, l.sb, 0, nil); rule(err) != "L4" {
		t.Errorf("a wrong length: %v", err)
	}
	// A commit record with a right CRC of its own, but not that of the records.
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
		if s, err := Scan(l.words, l.sb, 0, nil); err != nil || s.LSN >= 1004 || !s.Torn || s.UserSeq != 40 {
			t.Errorf("a wrong %s: %+v, %v", name, s, err)
		}
		if _, err := Scan(l.words, l.sb, 1004, nil); rule(err) != "L5" {
			t.Errorf("a wrong %s, promised: %v", name, err)
		}
	}
}

// TestBeginMismatch: a begin record whose checksum is right, and which is not that of the next
// segment of this generation, ends the log, as if nothing were there: it alone says what the
// segment of a commit without records follows.
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

// TestCommitInsideAnOperation: no writer commits one that is not complete. What is before it
// counts, and it does not.
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

// TestUnknownBitsOfARecord bears L3, as far as this package checks it.
func TestUnknownBitsOfARecord(t *testing.T) {
	const at = FirstWord + segmentHeadWords
	for bit := recordOthers; bit < 64; bit++ {
		l := newTestLog(make([]uint64, testWords), testLive(nil))
		l.w.Append(&Record{Block: layout.WordStash / 8, Words: 1 << 4, Last: true, Operation: 6})
		l.words[at] |= 1 << bit
		end := NextRecord(l.words, at) - 1
		l.words[at+2] = 0 // a value now
		l.words[end] = 6<<32 | uint64(new(checker).record(l.sb.LogSalt(), 1001, 0, l.words[at:end], 6))
		s, err := Scan(l.words, l.sb, 0, nil)
		if known := bit < recordOthers+3; known != (err == nil && s.Records == 1) || !known && rule(err) != "L3" {
			t.Errorf("bit %d: %+v, %v", bit, s, err)
		}
	}
}

// TestLogHeader bears L1, as far as this package checks it.
func TestLogHeader(t *testing.T) {
	sb := testLive(nil)
	l := newTestLog(make([]uint64, testWords), sb)
	h, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt())
	if !ok || h != (Header{UUID: sb.UUID(), Generation: 7, Salt: 0x5A17, Bytes: MinBytes}) {
		t.Fatalf("%+v, %t", h, ok)
	}
	// The next generation leaves it alone.
	newTestLog(l.words, testLive(func(sb *layout.Superblock) { sb.SetGeneration(8); sb.SetLogSalt(1) }))
	if _, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt()); !ok {
		t.Error("the header is gone with the next generation")
	}
	if h, ok := FindHeader(l.words, sb.UUID(), 1); !ok || h.Generation != 8 {
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
	// Generation 7 has the second slot. Whether the log has the size that its
	// header says is for the caller to see.
	for _, n := range []int{0, 7, 8, PageWords, PageWords + headerWords - 1} {
		if _, ok := FindHeader(l.words[:n], sb.UUID(), sb.LogSalt()); ok {
			t.Errorf("a log of %d words has a header", n)
		}
	}
	for i := range headerWords {
		for bit := range 64 {
			l.words[PageWords+i] ^= 1 << bit
			if _, ok := FindHeader(l.words, sb.UUID(), sb.LogSalt()); ok && (i != 7 || bit < 32) {
				t.Errorf("bit %d of word %d of the header does not count", bit, i)
			}
			l.words[PageWords+i] ^= 1 << bit
		}
	}
}

// forge gives the segments of a log right checks, and what they need to follow
// each other, so that what else is in them gets past the checks. A segment has as
// many records as its commit record says, some hundreds at most.
func forge(log []uint64, sb *layout.Superblock) {
	w := NewWriter(log, func(word uint64, values []uint64) { copy(log[word:], values) }, sb.Generation(), sb.LogSalt(), sb.CheckpointLSN())
	for w.segment+segmentHeadWords <= uint64(len(log)) {
		head := log[w.segment+commitAt:]
		c := Commit{Records: head[4], UserSeq: head[5], Operation: head[6], Length: head[7], Durable: head[8]}
		w.begin()
		for n := c.Records % 300; n > 0 && w.Room() > 0 && NextRecord(log, w.end) <= uint64(len(log)); n-- {
			last := NextRecord(log, w.end) - 1
			w.lsn++
			w.check = w.checker.record(w.salt, w.lsn, w.check, log[w.end:last], uint32(log[last]>>32))
			log[last] = log[last]>>32<<32 | uint64(w.check)
			w.end = last + 1
			w.records++
		}
		w.Commit(c)
	}
}
