package wal

import (
	"fmt"
	"iter"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Contents describes what a log holds for one generation.
type Contents struct {
	LSN       uint64 // of the last record or commit record
	Records   uint64 // of whole operations
	UserSeq   uint64
	Operation uint64    // operations since the user sequence was set
	Length    uint64    // items
	Segments  []Segment // those with records of whole operations
	From, End [2]uint64 // of each generation: its first word, and the one after the last that counts; 0 if there is no later generation
	Torn      bool      // a committed segment, or an operation, is incomplete at the end
}

// Bytes returns the size of what counts, with the headers.
func (c *Contents) Bytes() int64 {
	return int64(FirstWord+c.End[0]-c.From[0]+c.End[1]-c.From[1]) * 8
}

// A Segment locates the records of a segment.
type Segment struct {
	Log     int    // 0 if it is of the generation of the superblock, 1 if it is of the next
	Start   uint64 // word of the first record
	Records uint64 // of whole operations
	Time    uint64 // of its commit, or 0 if it has none
}

// Each calls do for the records of a segment, in order. log is the one that it is in.
func (seg Segment) Each(log []uint64, do func(Record)) {
	at := seg.Start
	for range seg.Records {
		var r Record
		r, at = ReadRecord(log, at)
		do(r)
	}
}

// Ended yields the segments of a generation that has ended, in the log of a file that keeps its
// hashes. It trusts the log: use it only for one that this process has written.
func Ended(log []uint64, generation, salt uint64) iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		checker := checkers.Get().(*checker)
		defer checkers.Put(checker)
		from, end := Half(uint64(len(log)), generation)
		for at := from; at+segmentHeadWords <= end; {
			g, s, c, _, _, ok := checker.readCommit(log, at, true)
			if !ok || g != generation || s != salt {
				return
			}
			seg := Segment{Start: at + segmentHeadWords, Records: c.Records, Time: c.Time}
			if !yield(seg) {
				return
			}
			at = seg.Start
			for range seg.Records {
				at = NextRecord(log, at)
			}
			at = nextSegment(at)
		}
	}
}

// Scan reads the log of the generation that sb names, and of the one after it, up to the
// end, and calls each, unless it is nil, for the records of whole operations, in order.
// It must not keep them. promised is an LSN up to which the log is known to have been durable,
// or 0. The later generation is in the log next, which may be the same as log, or nil.
//
// After a crash, a log may end anywhere past the last durable LSN. If it ends before that
// LSN, it is damaged (L5).
func Scan(log, next []uint64, sb *layout.Superblock, promised uint64, each func(*Record)) (Contents, error) {
	s := scanner{
		Contents: Contents{LSN: sb.CheckpointLSN(), UserSeq: sb.UserSeq(), Operation: sb.Operation(), Length: sb.Length()},
		promised: max(promised, sb.CheckpointLSN()), each: each, lsn: sb.CheckpointLSN(), timed: sb.KeepsHashes(),
		checker: checkers.Get().(*checker),
	}
	defer checkers.Put(s.checker)
	for i, log := range [][]uint64{log, next} {
		if log == nil {
			continue
		}
		g := part{log: log, number: i, generation: sb.Generation(), salt: sb.LogSalt()}
		if i == 1 {
			g.generation, g.salt = g.generation+1, NextSalt(g.salt)
		}
		g.from, g.end = partOf(log, sb.UUID(), g.generation, g.salt)
		end, err := s.scan(g)
		if i == 0 || end > g.from { // otherwise there is no later generation
			s.From[i], s.End[i] = g.from, end
		}
		if err != nil {
			return s.Contents, err
		}
	}
	if s.promised > s.LSN {
		return s.Contents, corrupt(max(s.End[0], s.End[1]), fmt.Sprintf("L5: the log ends after LSN %d, and was durable up to %d", s.LSN, s.promised))
	}
	return s.Contents, nil
}

// A part is the log of a generation.
type part struct {
	log              []uint64
	from, end        uint64 // words of log: the first, and the one after the last
	number           int    // 0 or 1
	generation, salt uint64
}

// A scanner scans the parts of a log, one after the other.
type scanner struct {
	Contents
	promised  uint64
	each      func(*Record)
	operation []Record // the records of one operation, until its last
	lsn       uint64   // of the last record
	check     uint32   // of the last record
	chained   bool     // whether there is one: the first is chained to what is gone
	ended     bool
	timed     bool // commits have a time
	checker   *checker
}

// scan scans a part of a log, and returns the word after the last that counts.
func (s *scanner) scan(p part) (end uint64, err error) {
	segment := p.from
	end = segment
	log := p.log[:p.end]
	for !s.ended && segment+segmentHeadWords <= p.end {
		generation, salt, first, prev, ok := s.checker.readBegin(log, segment)
		if !ok || generation != p.generation || salt != p.salt || first != s.lsn+1 || s.chained && prev != s.check {
			break
		}
		s.check, s.chained = prev, true
		generation, salt, commit, crc, commitCheck, ok := s.checker.readCommit(log, segment, s.timed)
		committed := ok && generation == p.generation && salt == p.salt
		at, n := segment+segmentHeadWords, uint64(0)
		whole := Segment{Log: p.number, Start: at}
		for at+recordWords <= p.end && !(committed && n == commit.Records) {
			next := NextRecord(log, at)
			if next > p.end {
				break
			}
			words, last := log[at:next-1], log[next-1]
			if uint32(last) != s.checker.record(p.salt, s.lsn+1, s.check, words, uint32(last>>32)) || words[0]|words[1]|last == 0 {
				break
			}
			if words[0]&recordUnused != 0 || words[0]&recordHash != 0 && words[0]&recordLast == 0 || !oneBlock(words[0]) {
				return end, corrupt(at, "L3: the record has unknown bits, a hash that is not at the end of its operation, or words of two blocks")
			}
			s.operation = append(s.operation, Record{})
			r := &s.operation[len(s.operation)-1]
			r.decode(log[at:next])
			s.lsn, s.check = s.lsn+1, uint32(last)
			at, n = next, n+1
			if !r.Last {
				continue
			}
			s.endOperation(r)
			whole.Records, end = n, at
		}
		if whole.Records > 0 {
			s.Segments = append(s.Segments, whole)
		}
		if committed && n == commit.Records && s.checker.words(log[segment+segmentHeadWords:at]...) == crc && commit.LSN == s.lsn+1 && len(s.operation) == 0 {
			s.lsn, s.check = commit.LSN, commitCheck
			s.promised = max(s.promised, commit.Durable)
			s.LSN, end = s.lsn, at
			if whole.Records > 0 {
				s.Segments[len(s.Segments)-1].Time = commit.Time
			}
			s.UserSeq, s.Operation = commit.UserSeq, commit.Operation
			if s.Length != commit.Length {
				return end, corrupt(segment, fmt.Sprintf("L4: the commit says %d items, its records make %d", commit.Length, s.Length))
			}
			segment = nextSegment(at)
			continue
		}
		s.Torn = committed || len(s.operation) > 0
		s.ended = true
	}
	// Nothing past a bad record counts. But a commit record further on may prove that the
	// bad record was durable once, and so is damaged.
	for at := segment; at+segmentHeadWords <= p.end; at += PageWords {
		generation, salt, commit, _, _, ok := s.checker.readCommit(log, at, s.timed)
		if ok && generation == p.generation && salt == p.salt {
			s.promised = max(s.promised, commit.Durable)
		}
	}
	return end, nil
}

// endOperation counts an operation, whose last record is r.
func (s *scanner) endOperation(r *Record) {
	s.LSN = s.lsn
	s.Records += uint64(len(s.operation))
	s.Length += uint64(int64(r.Grow))
	s.Operation += uint64(r.Operation - uint32(s.Operation))
	if s.each != nil {
		for i := range s.operation {
			s.each(&s.operation[i])
		}
	}
	s.operation = s.operation[:0]
}

// LaterGeneration reports whether log belongs to the file of sb and has a header, a begin or
// a commit record of a later generation than a recovery reads (L2). If so, the superblock of that
// generation is lost. The header that shows whose log it is may have the salt of sb or of
// the later generation.
func LaterGeneration(log []uint64, sb *layout.Superblock) bool {
	_, ours := FindHeader(log, sb.UUID(), sb.LogSalt())
	named := func(salt uint64) bool {
		for _, uuid := range [][16]byte{sb.UUID(), NextUUID(sb.UUID(), salt)} {
			if _, ok := FindHeader(log, uuid, salt); ok {
				return true
			}
		}
		return false
	}
	// A header is stored once the superblock before its generation is durable.
	for slot := range uint64(HeaderSlots) {
		if h, ok := readHeader(log, slot); ok && h.UUID == sb.UUID() && h.Generation > sb.Generation()+1 {
			return true
		}
	}
	checker := checkers.Get().(*checker)
	defer checkers.Put(checker)
	for at := uint64(FirstWord); at+segmentHeadWords <= uint64(len(log)); at += PageWords {
		generation, salt, _, _, ok := checker.readBegin(log, at)
		if !ok {
			generation, salt, _, _, _, ok = checker.readCommit(log, at, sb.KeepsHashes())
		}
		read := generation <= sb.Generation() || sb.State() == layout.Live && generation == sb.Generation()+1 && salt == NextSalt(sb.LogSalt())
		if ok && !read && (ours || named(salt)) {
			return true
		}
	}
	return false
}

// readBegin decodes the begin record of a segment of any generation. ok reports whether its
// CRC is right.
func (c *checker) readBegin(log []uint64, segment uint64) (generation, salt, lsn uint64, check uint32, ok bool) {
	w := log[segment : segment+5]
	if w[0] != beginMagic {
		return
	}
	sum := c.words(w[0], w[1], w[2], w[3], w[4]&(1<<32-1))
	return w[1], w[2], w[3], uint32(w[4]), uint32(w[4]>>32) == sum
}

// readCommit decodes the commit record of a segment of any generation. timed says whether it has
// a time. ok reports whether its own CRC is right; the caller checks crc, that of the records.
func (c *checker) readCommit(log []uint64, segment uint64, timed bool) (generation, salt uint64, commit Commit, crc, check uint32, ok bool) {
	w := log[segment+commitAt : segment+commitAt+commitWords]
	if w[0] != commitMagic {
		return
	}
	var words [commitWords + 1]uint64
	n := copy(words[:], w)
	words[9] &= 1<<32 - 1
	if timed {
		words[n] = log[segment+timeAt]
		n++
	}
	check = c.words(words[:n]...)
	commit = Commit{LSN: w[3], Records: w[4], UserSeq: w[5], Operation: w[6], Length: w[7], Durable: w[8], Time: words[commitWords]}
	return w[1], w[2], commit, uint32(w[9]), check, uint32(w[9]>>32) == check
}

func corrupt(word uint64, rule string) error {
	return &layout.CorruptError{Region: layout.RegionLog, Offset: int64(word) * 8, Rule: rule}
}
