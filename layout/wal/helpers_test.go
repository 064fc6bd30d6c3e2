package wal

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	_ "github.com/mmapfilter/mmapfilter/layout/all"

	"github.com/mmapfilter/mmapfilter/layout"
)

const testWords = MinBytes / 8

// keepsHashes, an argument of testLive, makes the file one that keeps hashes, at operation 70 of its
// history.
func keepsHashes(sb *layout.Superblock) {
	sb.SetKeepsHashes(false)
	sb.SetKept(layout.Kept{At: layout.Position{Number: 70, Chain: 0xC4A1}, LeftOut: 3, Waiting: 2})
	sb.SetLastTime(1e18)
}

// testLive returns the superblock of a live file of generation 8 with 100 items. The file is at user
// sequence 40 plus 5 operations, and its log continues after LSN 1000.
func testLive(change func(*layout.Superblock)) *layout.Superblock {
	g, err := layout.NewGeometry(layout.Compact, layout.Params{Quotients: 41, RemainderBits: 7}, 100)
	if err != nil {
		panic(err)
	}
	sb := new(layout.Superblock)
	sb.SetGeneration(8)
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

// A testLog is a log and what was put into it.
type testLog struct {
	words   []uint64
	sb      *layout.Superblock
	w       *Writer
	stored  []uint64 // word numbers, in the order of the stores
	ops     []testOp
	further uint64 // number of words in a record after the first, up to 7

	length, userSeq, operation, durable uint64
	kept                                layout.Kept
	time                                uint64 // of the last commit
	commits                             []Commit
}

// A testOp is an operation in a log.
type testOp struct {
	records []Record
	end     Contents // what the log holds if this operation is the last
}

func newTestLog(words []uint64, sb *layout.Superblock) *testLog {
	l := &testLog{words: words, sb: sb, length: sb.Length(), userSeq: sb.UserSeq(), operation: sb.Operation(), durable: sb.CheckpointLSN()}
	l.kept, l.time = sb.Kept(), sb.LastTime()
	store := func(i, v uint64) {
		l.words[i] = v
		l.stored = append(l.stored, i)
	}
	PutHeader(store, Header{UUID: sb.UUID(), Generation: sb.Generation(), Salt: sb.LogSalt(), Bytes: int64(len(words)) * 8})
	l.w = NewWriter(words, each(store), sb.Generation(), sb.LogSalt(), sb.CheckpointLSN())
	return l
}

// each returns a function that stores values one by one.
func each(store func(i, v uint64)) func(word uint64, values []uint64) {
	return func(word uint64, values []uint64) {
		for i, v := range values {
			store(word+uint64(i), v)
		}
	}
}

// do appends an operation of n records, which adds grow items. If the file keeps its hashes, the
// operation is an insert, a delete or, if grow is 0, an AtLeastOne that leaves its key out.
func (l *testLog) do(n, grow int) {
	var records []Record
	for i := range n {
		word := layout.WordStash + (l.w.LSN()+uint64(i))*37%4000
		stores := []Store{{Word: word, Value: 0x9E3779B97F4A7C15 * (l.w.LSN() + uint64(i)), Guarded: i%3 == 1}}
		for further := range l.further {
			stores = append(stores, Store{Word: word ^ (further + 1), Value: word * further})
		}
		var r Record
		if rest := r.Gather(stores); rest != nil {
			panic("a block is one record")
		}
		records = append(records, r)
	}
	op := layout.Op(0)
	if l.sb.KeepsHashes() {
		op = map[int]layout.Op{1: layout.Insert, 0: layout.AtLeastOne, -1: layout.Delete}[grow]
	}
	l.append(records, grow, op)
}

// note appends an operation that changes only the history, and no items.
func (l *testLog) note(op layout.Op) { l.append(make([]Record, 1), 0, op) }

func (l *testLog) append(records []Record, grow int, op layout.Op) {
	l.operation++
	l.length += uint64(int64(grow))
	last := &records[len(records)-1]
	last.Last, last.Grow, last.Operation, last.Op = true, grow, uint32(l.operation), op
	if op != 0 {
		last.Hash = l.operation * 0xBB67AE8584CAA73B
	}
	l.kept.Add(op, grow, last.Hash)
	for i := range records {
		l.w.Append(&records[i])
	}
	l.ops = append(l.ops, testOp{records, l.contents()})
}

// contents returns what the log holds, except the number of records.
func (l *testLog) contents() Contents {
	return Contents{
		LSN: l.w.LSN(), UserSeq: l.userSeq, Operation: l.operation, Length: l.length, Kept: l.kept, Time: l.time,
		End: [2]uint64{l.w.End()},
	}
}

func (l *testLog) commit() Commit {
	c := Commit{UserSeq: l.userSeq, Operation: l.operation, Length: l.length, Durable: l.durable}
	if l.sb.KeepsHashes() {
		l.time += 1e9
		c.History, c.Mark, c.At = true, l.time, l.kept.At
	}
	c = l.w.Commit(c)
	l.commits = append(l.commits, c)
	l.durable = c.LSN
	return c
}

// commitAt commits with a new user sequence.
func (l *testLog) commitAt(seq uint64) Commit {
	l.userSeq, l.operation = seq, 0
	return l.commit()
}

// scan scans the log, and compares the records that Scan returns with the records put in.
func (l *testLog) scan(t testing.TB, promised uint64) (Contents, error) {
	t.Helper()
	return l.scanWords(t, l.words, promised)
}

func (l *testLog) scanWords(t testing.TB, words []uint64, promised uint64) (Contents, error) {
	t.Helper()
	var got, want []Record
	s, err := Scan(words, words, l.sb, promised, func(r *Record) { got = append(got, *r) })
	if uint64(len(got)) != s.Records {
		t.Fatalf("the scan counts %d records, but passed on %d", s.Records, len(got))
	}
	for _, op := range l.ops {
		if len(want) < len(got) {
			want = append(want, op.records...)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the scan passed on %d records, which are not the first %d put in", len(got), len(want))
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
		t.Fatal("the segments of the scan hold other records")
	}
	s.Segments, s.From, s.Durable = nil, [2]uint64{}, 0
	return s, err
}

// rule returns the number of the rule that an error names.
func rule(err error) string {
	e := new(layout.CorruptError)
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	return e.Rule
}

// forge chains the segments of a log and gives them valid checksums, so that a scan looks at the rest
// of their content. A segment gets as many records as its commit record says, modulo 300.
func forge(log []uint64, sb *layout.Superblock) {
	w := NewWriter(log, func(word uint64, values []uint64) { copy(log[word:], values) }, sb.Generation(), sb.LogSalt(), sb.CheckpointLSN())
	for w.segment+segmentHeadWords <= w.limit {
		head := log[w.segment+commitAt:]
		c := Commit{Records: head[4], UserSeq: head[5], Operation: head[6], Length: head[7], Durable: head[8]}
		if sb.KeepsHashes() {
			c.History, c.Mark, c.At = true, head[10], layout.Position{Number: head[11], Chain: head[12]}
		}
		w.begin()
		for n := c.Records % 300; n > 0 && w.Room() > 0 && NextRecord(log, w.end) <= w.limit; n-- {
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
