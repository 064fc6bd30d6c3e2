package wal

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A Commit is the content of a commit record.
type Commit struct {
	LSN       uint64
	Records   uint64
	UserSeq   uint64
	Operation uint64 // operations since the user sequence was set
	Length    uint64 // items
	Durable   uint64

	// If the file has a history (layout.Superblock.HasHistory): the time in nanoseconds since 1970 or,
	// in a replica without hashes, layout.Kept.Set; and the position.
	History bool
	Mark    uint64
	At      layout.Position
}

const (
	commitWords = 10
	keptAt      = commitAt + commitWords // word of the commit mark in its segment
	keptWords   = 3                      // the commit mark and the position
)

// A Writer lays out records in a log. It only stores to the words of the log; its caller
// makes them durable. It is not safe for concurrent use.
type Writer struct {
	log        []uint64
	limit      uint64                             // word after the half of the generation
	store      func(word uint64, values []uint64) // into log, in order
	generation uint64
	salt       uint64

	lsn     uint64 // of the last record
	check   uint32 // of the last record
	segment uint64 // word at which the open segment starts
	records uint64 // in the open segment
	end     uint64 // word after the records
	checker checker
	words   [maxPieceWords]uint64 // buffer for the words of one store
}

// maxPieceWords is the length of the longest piece of a log: a commit record, or a record.
const maxPieceWords = max(commitWords+keptWords, maxRecordWords)

// NewWriter returns a writer that begins a generation in its half of log, with LSN lsn+1.
// It changes the log only through store.
func NewWriter(log []uint64, store func(word uint64, values []uint64), generation, salt, lsn uint64) *Writer {
	from, end := Half(uint64(len(log)), generation)
	return &Writer{
		log: log, limit: end, store: store, generation: generation, salt: salt,
		lsn: lsn, segment: from, end: from + segmentHeadWords,
	}
}

// Next returns a writer that goes on with the next generation, in the other half of log or
// in another log. Its records are chained to the records of w. The open segment of w must be
// empty.
func (w *Writer) Next(log []uint64, store func(word uint64, values []uint64)) *Writer {
	next := NewWriter(log, store, w.generation+1, NextSalt(w.salt), w.lsn)
	next.check = w.check
	return next
}

// Generation returns the generation of the records, and their salt.
func (w *Writer) Generation() (generation, salt uint64) { return w.generation, w.salt }

// Use returns the size of the half of the generation and how much of it is in use, in bytes.
func (w *Writer) Use() (size, used int64) {
	from, end := Half(uint64(len(w.log)), w.generation)
	return int64(end-from) * 8, int64(w.end-from) * 8
}

// LSN returns the LSN of the last record.
func (w *Writer) LSN() uint64 { return w.lsn }

// Start returns the word at which the first record of the open segment is, or will be.
func (w *Writer) Start() uint64 { return w.segment + segmentHeadWords }

// End returns the word after the last record of the open segment.
func (w *Writer) End() uint64 { return w.end }

// Room returns how many more words of the file the half has room for, even if each word
// takes a record of its own.
func (w *Writer) Room() uint64 {
	if w.limit < w.end {
		return 0
	}
	return (w.limit - w.end) / recordWords
}

// logAhead is how many words past its end the log is prefetched for writing, because a log
// of megabytes does not fit in the cache. 64 words are eight cache lines, or about twenty
// short records; planning the operations of twenty records takes longer than a cache miss.
const logAhead = 64

// Append appends a record. There must be room for it.
func (w *Writer) Append(r *Record) {
	if w.records == 0 {
		w.begin()
	}
	n := r.encode((*[maxRecordWords - 1]uint64)(w.words[:]))
	w.lsn++
	w.check = w.checker.record(w.salt, w.lsn, w.check, w.words[:n], r.Operation)
	if next := w.end + logAhead; next < uint64(len(w.log)) {
		kernel.Prefetch(&w.log[next])
	}
	// The check is stored last, so that a record that is cut off has none.
	w.words[n] = uint64(w.check) | uint64(r.Operation)<<32
	w.store(w.end, w.words[:n+1])
	w.end += uint64(n) + 1
	w.records++
}

// begin stores the begin record, which shows the generation of the segment even if the
// segment has no commit record yet.
func (w *Writer) begin() {
	words := append(w.words[:0], beginMagic, w.generation, w.salt, w.lsn+1, uint64(w.check))
	words[4] |= uint64(w.checker.words(words...)) << 32
	w.store(w.segment, words)
}

// Commit ends the open segment, which may be empty, with a commit record. The next record
// begins a segment on a fresh page. Commit returns c with its LSN and record count set.
func (w *Writer) Commit(c Commit) Commit {
	if w.records == 0 {
		w.begin()
	}
	w.lsn++
	c.LSN, c.Records = w.lsn, w.records
	crc := w.checker.words(w.log[w.Start():w.end]...)
	words := append(w.words[:0], commitMagic, w.generation, w.salt, c.LSN, c.Records, c.UserSeq, c.Operation, c.Length, c.Durable, uint64(crc))
	if c.History {
		words = append(words, c.Mark, c.At.Number, c.At.Chain)
	}
	check := w.checker.words(words...)
	words[9] |= uint64(check) << 32
	w.store(w.segment+commitAt, words)
	w.check = check
	w.segment = nextSegment(w.end)
	w.end, w.records = w.Start(), 0
	return c
}

func nextSegment(end uint64) uint64 { return (end + PageWords - 1) / PageWords * PageWords }
