package wal

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Follower reads the log of a file that a writer, in this process or another one, has open. It reads
// whole segments, as the writer makes them durable, generation after generation. The writer does not
// know of the Follower and does not wait for it. If the writer gets far enough ahead, it overwrites a
// generation that the Follower has not read, and then the Follower finds no further segment.
type Follower struct {
	// Commit is the commit that was read last. At first it has the fields of the superblock.
	Commit

	generation, salt uint64
	kept             bool   // commits have a commit mark and a position
	segment          uint64 // word at which the next segment begins; 0 for the first of the generation
	check            uint32 // of the last record
	chained          bool   // a record has been read

	// The writer may store to the log meanwhile. So words are copied before they are checked.
	head    [segmentHeadWords]uint64
	words   []uint64 // the records of the last segment
	checker checker
}

// NewFollower returns a Follower of the log that a live superblock names.
func NewFollower(sb *layout.Superblock) *Follower {
	return &Follower{
		Commit: Commit{
			LSN: sb.CheckpointLSN(), UserSeq: sb.UserSeq(), Operation: sb.Operation(), Length: sb.Length(),
			Mark: sb.Kept().Set, At: sb.Kept().At,
		},
		generation: sb.Generation(), salt: sb.LogSalt(), kept: sb.HasHistory(),
	}
}

// Salt returns the salt of the generation.
func (f *Follower) Salt() uint64 { return f.salt }

// Next reads the next segment of the generation. It reports false if the log has no such segment, or
// if the LSN of the commit is above durable, the LSN up to which the log is durable.
func (f *Follower) Next(log []uint64, durable uint64) bool {
	from, end := Half(uint64(len(log)), f.generation)
	segment := max(f.segment, from)
	if !f.begins(log, segment, end) {
		return false
	}
	generation, salt, commit, crc, check, ok := f.checker.readCommit(f.head[:], 0, f.kept)
	if !ok || generation != f.generation || salt != f.salt || commit.LSN > durable {
		return false
	}
	at := segment + segmentHeadWords
	f.words = f.words[:0]
	for range commit.Records {
		if at == end {
			return false
		}
		next := at + recordLength(atomic.LoadUint64(&log[at]))
		if next > end {
			return false
		}
		for ; at < next; at++ {
			f.words = append(f.words, atomic.LoadUint64(&log[at]))
		}
	}
	if f.checker.words(f.words...) != crc {
		return false
	}
	f.Commit, f.check, f.chained, f.segment = commit, check, true, nextSegment(at)
	return true
}

// Each calls do for the records of the segment that Next has read, in order.
func (f *Follower) Each(do func(*Record)) error {
	for at := uint64(0); at < uint64(len(f.words)); {
		if !valid(f.words[at]) || NextRecord(f.words, at) > uint64(len(f.words)) {
			return corrupt(at, "L3", "the record has unknown bits, or bits that do not fit each other, or words of two blocks")
		}
		var r Record
		r, at = ReadRecord(f.words, at)
		do(&r)
	}
	return nil
}

// Turn goes on with the next generation. It reports false unless the next generation has begun in the
// log and the current generation has been read to its end.
func (f *Follower) Turn(log []uint64) bool {
	next := *f
	next.generation, next.salt, next.segment = f.generation+1, NextSalt(f.salt), 0
	from, end := Half(uint64(len(log)), next.generation)
	if !next.begins(log, from, end) {
		return false
	}
	*f = next
	return true
}

// begins reports whether the next segment of the generation begins at a word of a log.
func (f *Follower) begins(log []uint64, segment, end uint64) bool {
	if segment+segmentHeadWords > end || end > uint64(len(log)) {
		return false
	}
	for i := range f.head {
		f.head[i] = atomic.LoadUint64(&log[segment+uint64(i)])
	}
	generation, salt, first, prev, ok := f.checker.readBegin(f.head[:], 0)
	return ok && generation == f.generation && salt == f.salt && first == f.LSN+1 && (!f.chained || prev == f.check)
}

// HeaderOf is FindHeader for a log that another goroutine may store to.
func HeaderOf(log []uint64, uuid [16]byte, salt uint64) (h Header, ok bool) {
	var words [FirstWord]uint64
	for slot := range uint64(HeaderSlots) {
		for i := slot * PageWords; i < slot*PageWords+headerWords; i++ {
			words[i] = atomic.LoadUint64(&log[i])
		}
	}
	return FindHeader(words[:], uuid, salt)
}
