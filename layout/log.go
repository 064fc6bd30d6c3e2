package layout

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/klauspost/crc32"
	"github.com/mmapfilter/mmapfilter/layout/mistake"
	"github.com/zeebo/xxh3"
)

// The log, NAME.stash, is what a writer did since the last checkpoint, as words
// of 64 bits:
//
//	0        header of one generation, 64 bytes of a page
//	4096     header of the next one, or of the one before
//	8192     batches, each from a page boundary on
//
// A batch is the operations of one commit:
//
//	0        begin record, 40 bytes: stored with the first operation
//	40       commit record, 80 bytes: stored when the batch is complete
//	120      zero
//	128      records of 24 to 80 bytes, one after the other, up to the next batch
//
// A generation ends with a checkpoint; the next one has a new salt and begins
// again at 8192, over the bytes of the last. So what a page holds is worth
// nothing by itself: every record carries a check, over itself, the salt, its
// LSN and the check of the record before it.
//
// The LSN numbers records and commit records, and goes on from generation to
// generation. The commit record comes at the head of its batch, not at its end,
// so that a small commit dirties one page and not two; it is the last word of a
// batch to be stored, and its LSN is the one after those of the records.
const (
	LogPageBytes   = 4096
	LogHeaderSlots = 2
	MinLogBytes    = 16 * LogPageBytes
	MaxLogBytes    = 1 << 40
	RecordBytes    = 24 // of a record of one word; each further one is 8 more

	LogPageWords   = LogPageBytes / 8
	LogStart       = LogHeaderSlots * LogPageWords // word of the first batch
	batchHeadWords = 16
	commitAt       = 5
	recordWords    = RecordBytes / 8
)

var (
	logMagic    = binary.LittleEndian.Uint64([]byte("MMAPFLOG"))
	beginMagic  = binary.LittleEndian.Uint64([]byte("MMFBEGIN"))
	commitMagic = binary.LittleEndian.Uint64([]byte("MMFCOMMT"))
)

// A Store is one word of a filter file getting a value.
type Store struct {
	Word    uint64 // its number in the file
	Value   uint64
	Guarded bool // something may be looked for that is not there any more
}

// A Record is what an operation stores to words of one block of 64 bytes: a whole line
// of Compact, moved along by one slot, is one record, and so are the two buckets of a
// move inside a line.
//
//	word 0   bits 0-47 the first word, as a number in the file; 48 guarded; 49 the last
//	         of its operation, and then 50 the length grows by one, 51 it shrinks by one;
//	         52-58 which of the seven words after the first there are too
//	word 1…  their values, in the order of the words
//	the last bits 0-31 the check; 32-63, in the last of an operation, the low half of
//	         its operation number
type Record struct {
	Block     uint64                // words 8·Block to 8·Block+7 of the file
	Words     uint8                 // bit i: it stores to word i of the block
	Values    [wordsPerBlock]uint64 // of these words; 0 for the others
	Guarded   bool                  // something may be looked for that is not there any more
	Last      bool
	Grow      int    // what the operation adds to the length, where Last
	Operation uint32 // its number modulo 2^32, where Last
}

const (
	recordWordBits = 48
	recordGuarded  = 1 << 48
	recordLast     = 1 << 49
	recordGrow     = 1 << 50
	recordShrink   = 1 << 51
	recordOthers   = 52 // the first bit of these
	recordOtherSet = 1<<(wordsPerBlock-1) - 1
	recordUnused   = 0x1F << 59
)

// Gather makes a record of the first of some stores of an operation, and of those
// after it in its block. It gives the rest.
//
// The stores of one record are done in the order of their words, and not in that of the
// operation. That is well: where one of them takes something away, the record is
// guarded, and all of it is stored between two steps of the removal counter that the
// words of a block share; else the stores only add. (Of a new entry of the stash the
// first word is to be there before the second: so it is.)
func (r *Record) Gather(stores []Store) (rest []Store) {
	*r = Record{}
	r.Block = stores[0].Word / wordsPerBlock
	for i, s := range stores {
		if s.Word/wordsPerBlock != r.Block {
			return stores[i:]
		}
		r.Words |= 1 << (s.Word % wordsPerBlock)
		r.Values[s.Word%wordsPerBlock] = s.Value
		r.Guarded = r.Guarded || s.Guarded
	}
	return nil
}

// Counter gives the removal counter of the words, as CounterOf does.
func (r *Record) Counter() uint64 { return CounterOf(r.Block * wordsPerBlock) }

// Each calls do for each word of the file that the record stores to, in their order.
func (r *Record) Each(do func(word, value uint64)) {
	for left := r.Words; left != 0; left &= left - 1 {
		i := bits.TrailingZeros8(left)
		do(r.Block*wordsPerBlock+uint64(i), r.Values[i])
	}
}

// head is word 0 of the record, without the flags.
func (r *Record) head() uint64 {
	first := bits.TrailingZeros8(r.Words)
	return r.Block*wordsPerBlock + uint64(first) | uint64(r.Words>>first>>1)<<recordOthers
}

// encode writes all but the last word of the record into w, and gives how many these are.
func (r *Record) encode(w *[wordsPerBlock + 1]uint64) (n int) {
	w[0] = r.head()
	if r.Guarded {
		w[0] |= recordGuarded
	}
	if r.Last {
		w[0] |= recordLast
	}
	switch r.Grow {
	case 1:
		w[0] |= recordGrow
	case -1:
		w[0] |= recordShrink
	}
	n = 1
	for left := r.Words; left != 0; left &= left - 1 {
		w[n] = r.Values[bits.TrailingZeros8(left)]
		n++
	}
	return n
}

// recordLength is how many words a record has, by its word 0.
func recordLength(w0 uint64) uint64 {
	return recordWords + uint64(bits.OnesCount64(w0>>recordOthers&recordOtherSet))
}

// oneBlock reports whether the words of a record are of one block, by its word 0.
func oneBlock(w0 uint64) bool {
	return w0%wordsPerBlock+uint64(bits.Len64(w0>>recordOthers&recordOtherSet)) < wordsPerBlock
}

// decodeRecord decodes the words of a record of one block.
func decodeRecord(w []uint64) (r Record) {
	w0, w2 := w[0], w[len(w)-1]
	first := w0 % wordsPerBlock
	r = Record{
		Block:     w0 & (1<<recordWordBits - 1) / wordsPerBlock,
		Words:     uint8((w0>>recordOthers&recordOtherSet<<1 | 1) << first),
		Guarded:   w0&recordGuarded != 0,
		Last:      w0&recordLast != 0,
		Operation: uint32(w2 >> 32),
	}
	for i, left := 1, r.Words; left != 0; i, left = i+1, left&(left-1) {
		r.Values[bits.TrailingZeros8(left)] = w[i]
	}
	if w0&recordGrow != 0 {
		r.Grow = 1
	}
	if w0&recordShrink != 0 {
		r.Grow--
	}
	return r
}

// LogRecord gives the record at a word of a log that is known to be whole there, and
// the word after it.
func LogRecord(log []uint64, at uint64) (r Record, next uint64) {
	next = NextLogRecord(log, at)
	return decodeRecord(log[at:next]), next
}

// NextLogRecord gives the word after the record at a word of a log.
func NextLogRecord(log []uint64, at uint64) uint64 { return at + recordLength(log[at]) }

// LogRecordWord gives the first word of the file that the record at a word of a log
// stores to.
func LogRecordWord(log []uint64, at uint64) uint64 { return log[at] & (1<<recordWordBits - 1) }

// A checker makes checksums of words. It is a buffer for their bytes, which would
// be one more allocation for every record if it were on the stack: what is handed
// to package crc32 escapes.
type checker [LogPageBytes]byte

// record is the check of a record: the CRC32C of all it vouches for. words is all but
// its last word.
func (c *checker) record(salt, lsn uint64, prev uint32, words []uint64, operation uint32) uint32 {
	if mistake.Made(mistake.UnchainedLog) {
		salt, lsn, prev = 0, 0, 0
	}
	binary.LittleEndian.PutUint64(c[0:], salt)
	binary.LittleEndian.PutUint64(c[8:], lsn)
	binary.LittleEndian.PutUint64(c[16:], words[0])
	binary.LittleEndian.PutUint64(c[24:], words[1])
	binary.LittleEndian.PutUint32(c[32:], prev)
	binary.LittleEndian.PutUint32(c[36:], operation)
	n := 40
	for _, w := range words[2:] {
		binary.LittleEndian.PutUint64(c[n:], w)
		n += 8
	}
	return crc32.Checksum(c[:n], castagnoli)
}

// words is the CRC32C of words as they are in a file.
func (c *checker) words(words ...uint64) (crc uint32) {
	for len(words) > 0 {
		n := min(len(words), LogPageWords)
		for i, w := range words[:n] {
			binary.LittleEndian.PutUint64(c[8*i:], w)
		}
		crc = crc32.Update(crc, castagnoli, c[:8*n])
		words = words[n:]
	}
	return crc
}

// A LogHeader says to which file and to which generation of it a log belongs.
//
//	word 0 magic "MMAPFLOG"   1 format version   2, 3 UUID of the file
//	     4 generation         5 salt             6 bytes of the log
//	     7 CRC32C of words 0 to 6
type LogHeader struct {
	UUID       [16]byte
	Generation uint64 // of the superblock that names the salt
	Salt       uint64
	Bytes      int64
}

const logHeaderWords = 8

// PutLogHeader stores a header in the slot of its generation, so that the one
// before stays.
func PutLogHeader(store func(i, v uint64), h LogHeader) {
	at := h.Generation % LogHeaderSlots * LogPageWords
	w := [logHeaderWords]uint64{
		logMagic, FormatVersion,
		binary.LittleEndian.Uint64(h.UUID[:8]), binary.LittleEndian.Uint64(h.UUID[8:]),
		h.Generation, h.Salt, uint64(h.Bytes),
	}
	w[7] = uint64(new(checker).words(w[:7]...))
	for i, v := range w {
		store(at+uint64(i), v)
	}
}

// FindLogHeader gives the header of a log that names a salt; none where the log
// belongs to another file or to another generation.
func FindLogHeader(log []uint64, uuid [16]byte, salt uint64) (h LogHeader, ok bool) {
	for slot := range uint64(LogHeaderSlots) {
		if h, ok := readLogHeader(log, slot); ok && h.UUID == uuid && h.Salt == salt {
			return h, true
		}
	}
	return LogHeader{}, false
}

// OwnLog reports whether a log belongs to a file, whatever its generation.
func OwnLog(log []uint64, uuid [16]byte) bool {
	for slot := range uint64(LogHeaderSlots) {
		if h, ok := readLogHeader(log, slot); ok && h.UUID == uuid {
			return true
		}
	}
	return false
}

func readLogHeader(log []uint64, slot uint64) (h LogHeader, ok bool) {
	at := slot * LogPageWords
	if at+logHeaderWords > uint64(len(log)) {
		return h, false
	}
	w := log[at : at+logHeaderWords]
	if w[0] != logMagic || w[1] != FormatVersion || w[7] != uint64(new(checker).words(w[:7]...)) {
		return h, false
	}
	h = LogHeader{Generation: w[4], Salt: w[5], Bytes: int64(w[6])}
	binary.LittleEndian.PutUint64(h.UUID[:8], w[2])
	binary.LittleEndian.PutUint64(h.UUID[8:], w[3])
	return h, true
}

// A Commit is what a commit record says.
//
//	word 0 magic "MMFCOMMT"    1 generation    2 salt    3 its LSN
//	     4 records of the batch                5 user sequence
//	     6 operation number    7 length        8 the LSN up to which the log was durable when this was stored
//	     9 bits 0-31 CRC32C of the records, 32-63 CRC32C of words 0 to 8 and of bits 0-31
type Commit struct {
	LSN       uint64
	Records   uint64
	UserSeq   uint64
	Operation uint64 // operations since the user sequence was set
	Length    uint64 // items
	Durable   uint64
}

const commitWords = 10

// A LogWriter lays records out in a log. It stores into the words of the log and
// nowhere else, and knows nothing of what is durable. It is not safe for use by
// several goroutines at once.
type LogWriter struct {
	log        []uint64
	store      func(word uint64, values []uint64) // into log, in their order
	generation uint64
	salt       uint64

	lsn     uint64 // of the last record
	check   uint32 // of the last record
	batch   uint64 // word at which the open batch starts
	records uint64 // in it
	end     uint64 // word after them
	checker checker
	words   [maxPieceWords]uint64 // that are stored together
}

// maxPieceWords is the words of the longest piece of a log: a commit record, or a record of a
// whole block.
const maxPieceWords = max(commitWords, wordsPerBlock+2)

// NewLogWriter begins a generation, after the record of some LSN, at the start
// of a log. The log is changed through store.
func NewLogWriter(log []uint64, store func(word uint64, values []uint64), generation, salt, lsn uint64) *LogWriter {
	return &LogWriter{log: log, store: store, generation: generation, salt: salt, lsn: lsn, batch: LogStart, end: LogStart + batchHeadWords}
}

// LSN is that of the last record.
func (w *LogWriter) LSN() uint64 { return w.lsn }

// Start is the word of the first record of the open batch, or of where it will be.
func (w *LogWriter) Start() uint64 { return w.batch + batchHeadWords }

// End is the first word after the records of the open batch.
func (w *LogWriter) End() uint64 { return w.end }

// Room is for how many more words of a file there is room in the log, however few are
// in one record.
func (w *LogWriter) Room() uint64 {
	if uint64(len(w.log)) < w.end {
		return 0
	}
	return (uint64(len(w.log)) - w.end) / recordWords
}

// logAhead is how many words before they are stored to the log is asked for: a log
// of megabytes is in no cache.
const logAhead = 64

// Append adds a record; there must be room for it.
func (w *LogWriter) Append(r *Record) {
	if w.records == 0 {
		w.begin()
	}
	n := r.encode((*[wordsPerBlock + 1]uint64)(w.words[:]))
	w.lsn++
	w.check = w.checker.record(w.salt, w.lsn, w.check, w.words[:n], r.Operation)
	if next := w.end + logAhead; next < uint64(len(w.log)) {
		Prefetch(&w.log[next])
	}
	// The check comes last: a record that is cut off has none.
	w.words[n] = uint64(w.check) | uint64(r.Operation)<<32
	w.store(w.end, w.words[:n+1])
	w.end += uint64(n) + 1
	w.records++
}

// begin stores the begin record: it shows that this page is of this generation,
// even before there is a commit record.
//
//	word 0 magic "MMFBEGIN"   1 generation   2 salt   3 LSN of the first record
//	     4 bits 0-31 the check that the first record is chained to, 32-63 CRC32C of words 0 to 3 and of bits 0-31
func (w *LogWriter) begin() {
	words := append(w.words[:0], beginMagic, w.generation, w.salt, w.lsn+1, uint64(w.check))
	words[4] |= uint64(w.checker.words(words...)) << 32
	w.store(w.batch, words)
}

// Commit ends the open batch, which may be empty; the next record begins
// another one, on a fresh page. It fills in the LSN and the number of records.
func (w *LogWriter) Commit(c Commit) Commit {
	if w.records == 0 {
		w.begin()
	}
	w.lsn++
	c.LSN, c.Records = w.lsn, w.records
	crc := w.checker.words(w.log[w.Start():w.end]...)
	words := append(w.words[:0], commitMagic, w.generation, w.salt, c.LSN, c.Records, c.UserSeq, c.Operation, c.Length, c.Durable, uint64(crc))
	check := w.checker.words(words...)
	words[9] |= uint64(check) << 32
	w.store(w.batch+commitAt, words)
	w.check = check
	w.batch = nextBatch(w.end)
	w.end, w.records = w.Start(), 0
	return c
}

func nextBatch(end uint64) uint64 { return (end + LogPageWords - 1) / LogPageWords * LogPageWords }

// readBegin decodes the begin record of a batch, of any generation.
func (c *checker) readBegin(log []uint64, batch uint64) (generation, salt, lsn uint64, check uint32, ok bool) {
	w := log[batch : batch+5]
	if w[0] != beginMagic {
		return
	}
	sum := c.words(w[0], w[1], w[2], w[3], w[4]&(1<<32-1))
	return w[1], w[2], w[3], uint32(w[4]), uint32(w[4]>>32) == sum
}

// readCommit decodes the commit record of a batch, of any generation. It
// verifies on its own.
func (k *checker) readCommit(log []uint64, batch uint64) (generation, salt uint64, c Commit, crc, check uint32, ok bool) {
	w := log[batch+commitAt : batch+commitAt+commitWords]
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

// A LogScan is what a log holds of one generation.
type LogScan struct {
	LSN       uint64 // of the last record or commit record
	Records   uint64 // of whole operations
	UserSeq   uint64
	Operation uint64  // operations since the user sequence was set
	Length    uint64  // items
	Batches   []Batch // that have records of whole operations
	End       uint64  // the word after the last that counts
	Torn      bool    // the log ends in the middle of something: a record or an operation
}

// A Batch says where the records of a batch are.
type Batch struct {
	Start   uint64 // word of the first
	Records uint64 // of whole operations
}

// ScanLog reads the log of the generation that a superblock names, up to its
// end, and calls each, if not nil, for the records of whole operations in their
// order. promised is the LSN up to which the log was durable at some time, as
// far as someone else knows.
//
// The log may end anywhere after the last LSN that anyone vouches for: there
// was a crash. If it ends before, it is damaged.
func ScanLog(log []uint64, sb *Superblock, promised uint64, each func(Record)) (s LogScan, err error) {
	s = LogScan{LSN: sb.CheckpointLSN(), UserSeq: sb.UserSeq(), Operation: sb.Operation(), Length: sb.Length(), End: LogStart}
	promised = max(promised, sb.CheckpointLSN())
	var operation []Record // the records of one, until its last
	check, checker := uint32(0), new(checker)
	lsn := s.LSN
	batch := uint64(LogStart)
	ended := false
	for !ended && batch+batchHeadWords <= uint64(len(log)) {
		generation, salt, first, prev, ok := checker.readBegin(log, batch)
		if !ok || generation != sb.Generation() || salt != sb.LogSalt() || first != lsn+1 || prev != check {
			if mistake.Made(mistake.UnchainedLog) && ok {
				lsn, check = first-1, prev
			} else {
				break
			}
		}
		generation, salt, commit, crc, commitCheck, ok := checker.readCommit(log, batch)
		committed := ok && (generation == sb.Generation() && salt == sb.LogSalt() || mistake.Made(mistake.UnchainedLog))
		at, n := batch+batchHeadWords, uint64(0)
		whole := Batch{Start: at}
		for at+recordWords <= uint64(len(log)) && !(committed && n == commit.Records) {
			next := NextLogRecord(log, at)
			if next > uint64(len(log)) {
				break
			}
			words, last := log[at:next-1], log[next-1]
			if uint32(last) != checker.record(sb.LogSalt(), lsn+1, check, words, uint32(last>>32)) || words[0]|words[1]|last == 0 {
				break
			}
			if words[0]&recordUnused != 0 || !oneBlock(words[0]) {
				return s, corruptLog(at, "L3: the record has unknown bits, or words of two blocks")
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
			s.Batches = append(s.Batches, whole)
		}
		if committed && n == commit.Records && checker.words(log[batch+batchHeadWords:at]...) == crc && commit.LSN == lsn+1 && len(operation) == 0 {
			lsn, check = commit.LSN, commitCheck
			promised = max(promised, commit.Durable)
			s.LSN, s.End = lsn, at
			s.UserSeq, s.Operation = commit.UserSeq, commit.Operation
			if s.Length != commit.Length {
				return s, corruptLog(batch, fmt.Sprintf("L4: the commit says %d items, its records make %d", commit.Length, s.Length))
			}
			batch = nextBatch(at)
			continue
		}
		s.Torn = committed || len(operation) > 0
		ended = true
	}
	// Past a bad record nothing counts; but a commit record further on may
	// know that it was good once.
	for at := batch; at+batchHeadWords <= uint64(len(log)); at += LogPageWords {
		generation, salt, commit, _, _, ok := checker.readCommit(log, at)
		if ok && generation == sb.Generation() && salt == sb.LogSalt() {
			promised = max(promised, commit.Durable)
		}
	}
	if promised > s.LSN {
		return s, corruptLog(s.End, fmt.Sprintf("L5: the log ends after LSN %d, and was durable up to %d", s.LSN, promised))
	}
	return s, nil
}

// LaterGeneration reports whether the log of a file holds a record of a later
// generation than a superblock: one that is lost, then. The log is that of the
// file if one of its headers says so, that of the superblock or that of the
// record.
func LaterGeneration(log []uint64, sb *Superblock) bool {
	_, ours := FindLogHeader(log, sb.UUID(), sb.LogSalt())
	named := func(salt uint64) bool {
		for _, uuid := range [][16]byte{sb.UUID(), NextUUID(sb.UUID(), salt)} {
			if _, ok := FindLogHeader(log, uuid, salt); ok {
				return true
			}
		}
		return false
	}
	checker := new(checker)
	for at := uint64(LogStart); at+batchHeadWords <= uint64(len(log)); at += LogPageWords {
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

// NextUUID is the UUID that a sealed file gets with its first operation, whose
// log has that salt: another one, and yet one that tells whose it is.
func NextUUID(uuid [16]byte, salt uint64) (next [16]byte) {
	return xxh3.Hash128Seed(uuid[:], salt).Bytes()
}

func corruptLog(word uint64, rule string) error {
	return &CorruptError{Region: RegionLog, Offset: int64(word) * 8, Rule: rule}
}
