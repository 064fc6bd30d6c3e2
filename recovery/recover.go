package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Recovery says what opening a file for writing found and did.
type Recovery struct {
	Recovered bool // a writer had died, and the fields from Generation on describe what it left
	Discarded bool // its log was discarded; see DiscardLog

	// UserSeq is the last durable user sequence, and Operations the number of durable
	// operations after it. A client that repeats its operations from there, skipping the
	// first Operations of them, loses none and does none twice.
	UserSeq, Operations uint64

	Generation uint64 // of the superblock that was found
	LSN        uint64 // of the last valid record, or of the last checkpoint
	Records    uint64 // log records that were replayed
	LogBytes   int64  // bytes of the log that were read
	Torn       bool   // the log ended in the middle of an operation, which was dropped
	Length     uint64 // items in the filter
}

// open reads the superblocks and recovers the file if a writer has died (W6).
func (w *Writer) open() (*Recovery, error) {
	slot, sb, g, err := layout.Newest(w.head())
	if err != nil {
		return nil, err
	}
	w.slot, w.sb, w.geometry = slot, *sb, g
	if unknown := w.sb.ReadOnlyCompat(); unknown != 0 {
		return nil, &layout.VersionError{Version: w.sb.Version(), Features: unknown}
	}
	r := &Recovery{
		UserSeq: w.sb.UserSeq(), Operations: w.sb.Operation(),
		Generation: w.sb.Generation(), LSN: w.sb.CheckpointLSN(), Length: w.sb.Length(),
	}
	log, left, err := w.findLog()
	if err != nil {
		return nil, err
	}
	if w.sb.State() != layout.Live {
		if err := w.repairSlots(); err != nil || !left {
			return r, err
		}
		if err := w.settle(); err != nil {
			return nil, err
		}
		return r, w.vol.RemoveLogs()
	}
	w.log = log
	err = w.recover(r)
	if w.log != nil {
		w.log.Close()
		w.log = nil
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// repairSlots stores the superblock of a file at rest again in the slots where a crash
// has cut a store short. Verify would otherwise report such a slot as damage.
func (w *Writer) repairSlots() error {
	var cut slotSet
	for slot := range layout.SuperblockSlots {
		if layout.SlotIsCut(w.head(), slot, &w.sb) {
			cut |= 1 << slot
		}
	}
	if cut == 0 {
		return nil
	}
	return w.copySuperblock(cut)
}

// findLog finds the log of a live superblock: the one whose header has its salt,
// whatever its name. It fails if there is none, or if any log has a record of a later
// generation than the superblock, since then the newest superblock is lost. left reports
// whether the log of a file that is not live still exists because a clean close was
// interrupted.
func (w *Writer) findLog() (found File, left bool, err error) {
	var wrong []error // why each other log is not the one
	for _, name := range []LogName{CurrentLog, NextLog} {
		log, err := w.vol.OpenLog(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, layout.ErrCorrupt) { // an unfinished new log, or one cut short
			wrong = append(wrong, err)
			continue
		}
		if err != nil {
			return nil, false, errors.Join(fmt.Errorf("open the log: %w", err), closeLog(found))
		}
		if wal.LaterGeneration(log.Words(), &w.sb) {
			return nil, false, errors.Join(outdated(&w.sb, name), log.Close(), closeLog(found))
		}
		h, ok := wal.FindHeader(log.Words(), w.sb.UUID(), w.sb.LogSalt())
		if ok = ok && h.Bytes == int64(len(log.Words()))*8; ok && found == nil && w.sb.State() == layout.Live {
			found = log
			continue
		}
		left = left || wal.Owns(log.Words(), w.sb.UUID())
		log.Close()
		wrong = append(wrong, &layout.CorruptError{Region: layout.RegionLog, Rule: fmt.Sprintf(
			"L1: the file was not closed, and NAME%s is the log of another file or another generation", name)})
	}
	switch {
	case found != nil || w.sb.State() != layout.Live:
		return found, left, nil
	case wrong != nil:
		return nil, false, wrong[0]
	}
	return nil, false, &layout.CorruptError{Region: layout.RegionLog, Rule: "L1: the file was not closed, and its log, NAME.stash, is missing"}
}

// outdated returns the error for a superblock when a newer one has been lost.
func outdated(sb *layout.Superblock, name LogName) error {
	return &layout.CorruptError{Region: layout.RegionSuperblock, Rule: fmt.Sprintf(
		"L2: the newest superblock has generation %d, but NAME%s has records of a later one: a superblock is damaged or the file is an older copy", sb.Generation(), name)}
}

// closeLog closes a log, which may be nil.
func closeLog(log File) error {
	if log == nil {
		return nil
	}
	return log.Close()
}

// recover replays the log of a dead writer. If it is interrupted, it can start again:
// the superblock and the log are durable before anything that depends on them is stored,
// and until then no other superblock slot is written.
func (w *Writer) recover(r *Recovery) error {
	runtime := layout.NewView(w.Words()[layout.WordRuntime:], w.geometry).Runtime
	promised := layout.Promise(runtime, w.sb.LogSalt())
	scan, err := w.scanLog(promised)
	if err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	// From here on, readers that find nothing answer "maybe". The live superblock must be
	// durable first: an odd epoch beside a clean or sealed one would stay odd for ever.
	epoch := runtime[layout.RuntimeEpoch] | 1
	w.storeRuntime(layout.RuntimeEpoch, epoch)
	if err := w.hardenLog(scan.End); err != nil {
		return err
	}
	w.replay(scan)
	w.evenCounters(runtime)
	w.storeRuntime(layout.RuntimeEpoch, epoch+1)

	w.length, w.userSeq, w.operation = scan.Length, scan.UserSeq, scan.Operation
	if err := w.SyncRegion(); err != nil {
		return err
	}
	next := w.next(layout.Clean)
	next.SetCheckpointLSN(scan.LSN)
	if err := w.rest(&next); err != nil {
		return err
	}
	*r = Recovery{
		Recovered: true, UserSeq: scan.UserSeq, Operations: scan.Operation, Generation: r.Generation,
		LSN: scan.LSN, Records: scan.Records, LogBytes: int64(scan.End) * 8, Torn: scan.Torn, Length: scan.Length,
	}
	return nil
}

// evenCounters increments the removal counters that an operation left odd.
func (w *Writer) evenCounters(runtime []uint64) {
	layout.Counters(func(word uint64) {
		if c := atomic.LoadUint64(&runtime[word]); c&1 != 0 {
			w.storeRuntime(word, c+1)
		}
	})
}

// scanLog reads the log to its end and checks every record against the geometry (L3)
// before any of them is stored.
func (w *Writer) scanLog(promised uint64) (wal.Contents, error) {
	end := uint64(layout.OffRegion+w.geometry.RegionBytes) / 8
	var bad error
	scan, err := wal.Scan(w.log.Words(), &w.sb, promised, func(r wal.Record) {
		r.Each(func(word, _ uint64) {
			if word < layout.WordStash || word >= end {
				bad = &layout.CorruptError{Region: layout.RegionLog, Rule: fmt.Sprintf("L3: a record stores to word %d, outside the stash and the lines", word)}
			}
		})
	})
	return scan, errors.Join(bad, err)
}

// hardenLog makes what the scan found durable before anything depends on it. It first
// stores every word again: after a failed sync, a word may be only in the cache although
// the system considers it written.
func (w *Writer) hardenLog(end uint64) error {
	words := w.log.Words()
	for i := range min((end/wal.PageWords+1)*wal.PageWords, uint64(len(words))) {
		w.log.Store(i, words[i])
	}
	return w.sync("the log", w.log)
}

// replay stores the last value of each word in the log, even if the mapping already shows
// it, since it may be only in the cache. It reads the log from the end to skip earlier
// values, which would take the filter back in time under its readers.
func (w *Writer) replay(scan wal.Contents) {
	log := w.log.Words()
	stored := make(wordSet)
	var starts []uint64 // of the records of a segment
	for _, b := range slices.Backward(scan.Segments) {
		starts = starts[:0]
		for at := b.Start; uint64(len(starts)) < b.Records; at = wal.NextRecord(log, at) {
			starts = append(starts, at)
		}
		for _, at := range slices.Backward(starts) {
			r, _ := wal.ReadRecord(log, at)
			r.Each(func(word, value uint64) {
				if stored.add(word) {
					w.put(word, value)
				}
			})
		}
	}
}

// A wordSet is a set of words of a file: one bit per word, in pieces.
type wordSet map[uint64]*[wordSetPiece / 64]uint64

const wordSetPiece = 1 << 16 // words: 8 KiB of bits for 512 KiB of a file

// add adds a word and reports whether it was not in the set.
func (s wordSet) add(word uint64) bool {
	piece := s[word/wordSetPiece]
	if piece == nil {
		piece = new([wordSetPiece / 64]uint64)
		s[word/wordSetPiece] = piece
	}
	bits, bit := &piece[word%wordSetPiece/64], uint64(1)<<(word%64)
	added := *bits&bit == 0
	*bits |= bit
	return added
}
