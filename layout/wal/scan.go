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
	Operation uint64      // operations since the user sequence was set
	Length    uint64      // items
	Kept      layout.Kept // the history, if the file has one
	Time      uint64      // of the last commit
	Durable   uint64      // an LSN up to which the log is known to have been durable
	Segments  []Segment   // in order; the last may be incomplete
	From, End [2]uint64   // of each generation: its first word, and the word after the last that counts; 0 if there is no later generation
	Torn      bool        // a committed segment, or an operation, is incomplete at the end
	Broken    bool        // only from Salvage: the log once went on after its present end
}

// Bytes returns the size of the part of the log that counts, with the headers.
func (c *Contents) Bytes() int64 {
	return int64(FirstWord+c.End[0]-c.From[0]+c.End[1]-c.From[1]) * 8
}

// A Segment locates the records of a segment.
type Segment struct {
	Log     int    // 0 for the generation of the superblock, 1 for the next generation
	Start   uint64 // word of the first record
	Records uint64 // of whole operations
	Commit  Commit // zero if the segment has no commit that counts
}

// Each calls do for the records of a segment, in order. log is the log that has the
// segment.
func (seg Segment) Each(log []uint64, do func(Record)) {
	at := seg.Start
	for range seg.Records {
		var r Record
		r, at = ReadRecord(log, at)
		do(r)
	}
}

// Ended yields the segments of a generation that has ended, in the log of a file that keeps its
// hashes. Ended checks nothing: use it only for a log that this process has written.
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
			seg := Segment{Start: at + segmentHeadWords, Records: c.Records, Commit: c}
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

// Scan reads a log up to its end: the generation that sb names, in log, and the generation
// after it, in next, which may be the same log or nil. It calls each for the records of
// whole operations, in order. each must not keep a record, and may be nil. promised is an
// LSN up to which the log is known to have been durable, or 0.
//
// After a crash, a log may end anywhere past the last durable LSN. If it ends before that
// LSN, it is damaged (L5).
func Scan(log, next []uint64, sb *layout.Superblock, promised uint64, each func(*Record)) (Contents, error) {
	s := scanner{
		Contents: Contents{
			LSN: sb.CheckpointLSN(), UserSeq: sb.UserSeq(), Operation: sb.Operation(), Length: sb.Length(),
			Kept: sb.Kept(), Time: sb.LastTime(), Durable: max(promised, sb.CheckpointLSN()),
		},
		each: each, kept: sb.HasHistory(), replica: sb.IsReplica(), follows: sb.Follows(),
	}
	return s.run(log, next, sb.Generation(), sb.LogSalt())
}

// Salvage is Scan for the log of a file that keeps its hashes and whose superblock may be lost. It
// scans the generation of a header of the log, and the next one. It begins at the first LSN of the
// log, and takes the length and the position from the first commit. It calls commit for each commit
// record that fits the records before it.
func Salvage(log, next []uint64, h Header, each func(*Record), commit func(Commit)) (Contents, error) {
	s := scanner{each: each, kept: true, follows: true, open: true, commit: commit}
	if from, end := Half(uint64(len(log)), h.Generation); from+segmentHeadWords <= end && end <= uint64(len(log)) {
		var c checker
		if generation, salt, first, _, ok := c.readBegin(log, from); ok && generation == h.Generation && salt == h.Salt {
			s.LSN = first - 1
		}
	}
	return s.run(log, next, h.Generation, h.Salt)
}

// run scans a generation, which has this salt, in log, and the generation after it in next.
func (s *scanner) run(log, next []uint64, generation, salt uint64) (Contents, error) {
	s.lsn = s.LSN
	s.checker = checkers.Get().(*checker)
	defer checkers.Put(s.checker)
	for i, log := range [][]uint64{log, next} {
		if log == nil {
			continue
		}
		g := part{log: log, number: i, generation: generation, salt: salt}
		if i == 1 {
			g.generation, g.salt = g.generation+1, NextSalt(g.salt)
		}
		g.from, g.end = Half(uint64(len(log)), g.generation)
		g.from, g.end = min(g.from, uint64(len(log))), min(g.end, uint64(len(log))) // the log may be cut short
		end, err := s.scan(g)
		if i == 0 || end > g.from { // otherwise the log has no later generation
			s.From[i], s.End[i] = g.from, end
		}
		if err != nil {
			return s.Contents, err
		}
	}
	if s.Durable > s.LSN {
		return s.Contents, corrupt(max(s.End[0], s.End[1]), "L5", fmt.Sprintf("the log ends after LSN %d, but was durable up to %d", s.LSN, s.Durable))
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
	each      func(*Record)
	commit    func(Commit) // or nil
	open      bool         // length and position are taken from the first commit
	operation []Record     // the records of one operation, until its last
	lsn       uint64       // of the last record
	check     uint32       // of the last record
	chained   bool         // whether check is known; at first it is not, since the record before is overwritten
	ended     bool
	kept      bool    // commits have a commit mark and a position
	replica   bool    // the file is a replica without hashes: records do not lead to the position
	follows   bool    // the file is a replica with hashes: there may be mark records
	mark      *Record // the mark record of the segment, or nil
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
			ours := ok && generation == p.generation && salt == p.salt
			s.Broken = s.Broken || s.commit != nil && (ours || !ok && s.beginIsLost(p, segment))
			break
		}
		s.check, s.chained = prev, true
		generation, salt, commit, crc, commitCheck, ok := s.checker.readCommit(log, segment, s.kept)
		committed := ok && generation == p.generation && salt == p.salt
		at, n := segment+segmentHeadWords, uint64(0)
		s.Segments = append(s.Segments, Segment{Log: p.number, Start: at})
		whole := &s.Segments[len(s.Segments)-1]
		for at+recordWords <= p.end && !(committed && n == commit.Records) {
			next := NextRecord(log, at)
			if next > p.end {
				break
			}
			words, last := log[at:next-1], log[next-1]
			if check := s.checker.record(p.salt, s.lsn+1, s.check, words, uint32(last>>32)); uint32(last) != check || words[0]|words[1]|last == 0 {
				s.Broken = s.Broken || s.commit != nil && s.goesOn(p, at, next, check)
				break
			}
			if !valid(words[0]) || words[0] == markHead && !s.follows {
				return end, corrupt(at, "L3", "the record has unknown bits, or bits that do not fit each other, or words of two blocks")
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
		if committed && n == commit.Records && s.checker.words(log[segment+segmentHeadWords:at]...) == crc && commit.LSN == s.lsn+1 && len(s.operation) == 0 {
			s.lsn, s.check = commit.LSN, commitCheck
			s.LSN, end, whole.Commit = s.lsn, at, commit
			if err := s.endCommit(segment, commit); err != nil {
				return end, err
			}
			segment = nextSegment(at)
			continue
		}
		s.Torn = committed || len(s.operation) > 0
		s.ended = true
	}
	// Nothing past a bad record counts. But a commit record further on may prove that the
	// bad record was once durable: then the log is damaged.
	for at := segment; at+segmentHeadWords <= p.end; at += PageWords {
		generation, salt, commit, _, _, ok := s.checker.readCommit(log, at, s.kept)
		if ok && generation == p.generation && salt == p.salt {
			s.Durable = max(s.Durable, commit.Durable)
		}
	}
	return end, nil
}

// endCommit takes the numbers from the commit record of a segment, and checks them against
// the records (L4).
func (s *scanner) endCommit(segment uint64, c Commit) error {
	s.Durable = max(s.Durable, c.Durable)
	s.UserSeq, s.Operation = c.UserSeq, c.Operation
	if s.open {
		s.Length, s.Kept.At, s.open = c.Length, c.At, false
	}
	if s.Length != c.Length {
		return corrupt(segment, "L4", fmt.Sprintf("the commit says %d items, its records make %d", c.Length, s.Length))
	}
	if s.replica {
		s.Kept.At, s.Kept.Set = c.At, c.Mark
	} else if s.kept && s.Kept.At != c.At {
		return corrupt(segment, "L4", fmt.Sprintf("the commit is at operation %d of the history, but its records lead to operation %d, or to another chain", c.At.Number, s.Kept.At.Number))
	}
	if !s.replica {
		s.Time = max(s.Time, c.Mark)
	}
	if s.mark != nil {
		s.Kept.Followed, s.Kept.Set = s.mark.marked()
		s.mark = nil
	}
	if s.commit != nil {
		s.commit(c)
	}
	return nil
}

// beginIsLost reports whether a segment has begun although its begin record is damaged. A half that
// is not new begins with a begin record of some generation. Elsewhere the first record shows that
// the segment has begun.
func (s *scanner) beginIsLost(p part, segment uint64) bool {
	if segment > p.from {
		return s.isRecord(p, segment+segmentHeadWords, s.lsn+1, s.check)
	}
	for _, w := range p.log[segment : segment+segmentHeadWords] {
		if w != 0 {
			return true
		}
	}
	return false
}

// goesOn reports whether another record follows the damaged record at a word. The length of the damaged
// record may be wrong too. So goesOn looks for the other record at every word where the damaged record
// may end, chained to the check stored there, and at next, chained to check, the check that the damaged
// record should have.
func (s *scanner) goesOn(p part, at, next uint64, check uint32) bool {
	for n := at + recordWords; n <= min(at+maxRecordWords, p.end); n++ {
		if s.isRecord(p, n, s.lsn+2, uint32(p.log[n-1])) {
			return true
		}
	}
	return s.isRecord(p, next, s.lsn+2, check)
}

// isRecord reports whether the words from at on are a record that has this LSN and is chained to the
// check prev.
func (s *scanner) isRecord(p part, at, lsn uint64, prev uint32) bool {
	if at+recordWords > p.end || NextRecord(p.log, at) > p.end {
		return false
	}
	words := p.log[at:NextRecord(p.log, at)]
	last := words[len(words)-1]
	return words[0]|words[1]|last != 0 && uint32(last) == s.checker.record(p.salt, lsn, prev, words[:len(words)-1], uint32(last>>32))
}

// endOperation counts an operation, whose last record is r.
func (s *scanner) endOperation(r *Record) {
	s.LSN = s.lsn
	s.Records += uint64(len(s.operation))
	s.Length += uint64(int64(r.Grow))
	s.Operation += uint64(r.Operation - uint32(s.Operation))
	s.Kept.Add(r.Op, r.Grow, r.Hash)
	if r.Mark {
		mark := *r
		s.mark = &mark
	}
	if s.each != nil {
		for i := range s.operation {
			s.each(&s.operation[i])
		}
	}
	s.operation = s.operation[:0]
}

// LaterGeneration reports whether log belongs to the file of sb, and has a header, a begin record or
// a commit record of a later generation than a recovery reads (L2). If so, the superblock of the later
// generation is lost. The header that has the UUID of the file may have the salt of sb or of the later
// generation.
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
			generation, salt, _, _, _, ok = checker.readCommit(log, at, sb.HasHistory())
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

// readCommit decodes the commit record of a segment of any generation. kept says whether it has
// a commit mark and a position. ok reports whether its own CRC is right; the caller checks crc, the CRC
// of the records.
func (c *checker) readCommit(log []uint64, segment uint64, kept bool) (generation, salt uint64, commit Commit, crc, check uint32, ok bool) {
	w := log[segment+commitAt : segment+commitAt+commitWords]
	if w[0] != commitMagic {
		return
	}
	var words [commitWords + keptWords]uint64
	n := copy(words[:], w)
	words[9] &= 1<<32 - 1
	if kept {
		n += copy(words[n:], log[segment+keptAt:])
	}
	check = c.words(words[:n]...)
	commit = Commit{
		LSN: w[3], Records: w[4], UserSeq: w[5], Operation: w[6], Length: w[7], Durable: w[8],
		History: kept, Mark: words[commitWords], At: layout.Position{Number: words[commitWords+1], Chain: words[commitWords+2]},
	}
	return w[1], w[2], commit, uint32(w[9]), check, uint32(w[9]>>32) == check
}

func corrupt(word uint64, rule, what string) error {
	return &layout.CorruptError{Region: layout.RegionLog, Offset: int64(word) * 8, Rule: rule, What: what}
}
