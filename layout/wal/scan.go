package wal

import (
	"fmt"

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
	End       uint64    // the word after the last that counts
	Torn      bool      // the log ends in the middle of a segment or an operation
}

// A Segment locates the records of a segment.
type Segment struct {
	Start   uint64 // word of the first record
	Records uint64 // of whole operations
}

// Scan reads the log of the generation that sb names, up to its end, and calls each,
// unless it is nil, for the records of whole operations, in order. promised is an LSN up
// to which the log is known to have been durable, or 0.
//
// After a crash, a log may end anywhere past the last durable LSN. If it ends before that
// LSN, it is damaged (L5).
func Scan(log []uint64, sb *layout.Superblock, promised uint64, each func(Record)) (s Contents, err error) {
	s = Contents{LSN: sb.CheckpointLSN(), UserSeq: sb.UserSeq(), Operation: sb.Operation(), Length: sb.Length(), End: FirstWord}
	promised = max(promised, sb.CheckpointLSN())
	var operation []Record // the records of one operation, until its last
	check, checker := uint32(0), new(checker)
	lsn := s.LSN
	segment := uint64(FirstWord)
	ended := false
	for !ended && segment+segmentHeadWords <= uint64(len(log)) {
		generation, salt, first, prev, ok := checker.readBegin(log, segment)
		if !ok || generation != sb.Generation() || salt != sb.LogSalt() || first != lsn+1 || prev != check {
			break
		}
		generation, salt, commit, crc, commitCheck, ok := checker.readCommit(log, segment)
		committed := ok && generation == sb.Generation() && salt == sb.LogSalt()
		at, n := segment+segmentHeadWords, uint64(0)
		whole := Segment{Start: at}
		for at+recordWords <= uint64(len(log)) && !(committed && n == commit.Records) {
			next := NextRecord(log, at)
			if next > uint64(len(log)) {
				break
			}
			words, last := log[at:next-1], log[next-1]
			if uint32(last) != checker.record(sb.LogSalt(), lsn+1, check, words, uint32(last>>32)) || words[0]|words[1]|last == 0 {
				break
			}
			if words[0]&recordUnused != 0 || !oneBlock(words[0]) {
				return s, corrupt(at, "L3: the record has unknown bits, or words of two blocks")
			}
			r := decodeRecord(log[at:next])
			lsn, check = lsn+1, uint32(last)
			at, n = next, n+1
			operation = append(operation, r)
			if !r.Last {
				continue
			}
			s.LSN, s.End, whole.Records = lsn, at, n
			s.Records += uint64(len(operation))
			s.Length += uint64(int64(r.Grow))
			s.Operation += uint64(r.Operation - uint32(s.Operation))
			if each != nil {
				for _, r := range operation {
					each(r)
				}
			}
			operation = operation[:0]
		}
		if whole.Records > 0 {
			s.Segments = append(s.Segments, whole)
		}
		if committed && n == commit.Records && checker.words(log[segment+segmentHeadWords:at]...) == crc && commit.LSN == lsn+1 && len(operation) == 0 {
			lsn, check = commit.LSN, commitCheck
			promised = max(promised, commit.Durable)
			s.LSN, s.End = lsn, at
			s.UserSeq, s.Operation = commit.UserSeq, commit.Operation
			if s.Length != commit.Length {
				return s, corrupt(segment, fmt.Sprintf("L4: the commit says %d items, its records make %d", commit.Length, s.Length))
			}
			segment = nextSegment(at)
			continue
		}
		s.Torn = committed || len(operation) > 0
		ended = true
	}
	// Nothing after a bad record counts. But a later commit record may prove that the bad
	// record was durable once, and has been damaged since.
	for at := segment; at+segmentHeadWords <= uint64(len(log)); at += PageWords {
		generation, salt, commit, _, _, ok := checker.readCommit(log, at)
		if ok && generation == sb.Generation() && salt == sb.LogSalt() {
			promised = max(promised, commit.Durable)
		}
	}
	if promised > s.LSN {
		return s, corrupt(s.End, fmt.Sprintf("L5: the log ends after LSN %d, and was durable up to %d", s.LSN, promised))
	}
	return s, nil
}

// LaterGeneration reports whether log belongs to the file of sb and has a begin or commit
// record of a later generation (L2). If so, the superblock of that generation is lost. The
// header that shows whose log it is may have the salt of sb or of the later generation.
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
	checker := new(checker)
	for at := uint64(FirstWord); at+segmentHeadWords <= uint64(len(log)); at += PageWords {
		generation, salt, _, _, ok := checker.readBegin(log, at)
		if !ok {
			generation, salt, _, _, _, ok = checker.readCommit(log, at)
		}
		if !ok || generation <= sb.Generation() {
			continue
		}
		if ours || named(salt) {
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

// readCommit decodes the commit record of a segment of any generation. ok reports whether
// its own CRC is right; the caller checks crc, that of the records.
func (k *checker) readCommit(log []uint64, segment uint64) (generation, salt uint64, c Commit, crc, check uint32, ok bool) {
	w := log[segment+commitAt : segment+commitAt+commitWords]
	if w[0] != commitMagic {
		return
	}
	var words [commitWords]uint64
	copy(words[:], w)
	words[9] &= 1<<32 - 1
	check = k.words(words[:]...)
	c = Commit{LSN: w[3], Records: w[4], UserSeq: w[5], Operation: w[6], Length: w[7], Durable: w[8]}
	return w[1], w[2], c, uint32(w[9]), check, uint32(w[9]>>32) == check
}

func corrupt(word uint64, rule string) error {
	return &layout.CorruptError{Region: layout.RegionLog, Offset: int64(word) * 8, Rule: rule}
}
