package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Recovery says what opening a file for writing found and did.
type Recovery struct {
	Recovered bool // a writer had died; the fields from Generation on describe the file and the log that it left
	Discarded bool // its log was discarded; see DiscardLog

	// UserSeq is the last durable user sequence, and Operations the number of durable
	// operations after it. A client that repeats its operations from UserSeq on, but skips
	// the first Operations of them, loses none and does none twice.
	UserSeq, Operations uint64

	Generation uint64 // of the superblock that was found
	LSN        uint64 // of the last valid record, or of the last checkpoint
	Records    uint64 // log records that were replayed
	LogBytes   int64  // bytes of the log that were read
	Torn       bool   // the log ended in the middle of an operation, which was dropped
	Length     uint64 // items in the filter
}

// NewWriter takes over a volume. If its last writer died, NewWriter recovers the file first.
func NewWriter(vol Volume) (*Writer, *Recovery, error) {
	w := &Writer{vol: vol, filter: vol.Filter()}
	r, err := w.open()
	if err != nil {
		return nil, nil, err
	}
	w.shown.Store(w.sb)
	w.length, w.userSeq, w.operation = w.sb.Length(), w.sb.UserSeq(), w.sb.Operation()
	w.history, w.lastTime = w.sb.Kept(), w.sb.LastTime()
	w.durable.Store(&durable{w.sb.CheckpointLSN(), w.userSeq, w.operation, w.history})
	if w.Follows() && w.history.Set == 0 {
		vol.RemoveSet() // a set of changes that is left has been applied; if it stays, it does no harm
	}
	return w, r, nil
}

// open reads the superblocks and recovers the file if a writer has died (W6).
func (w *Writer) open() (*Recovery, error) {
	slot, sb, g, err := layout.Newest(w.head())
	if err != nil {
		return nil, err
	}
	own := *sb // sb is in the file
	w.slot, w.sb, w.geometry = slot, &own, g
	w.expireAfter.Store(own.ExpireAfter())
	w.expiredBefore.Store(own.ExpiredBefore())
	if err := w.sb.CheckWritable(); err != nil {
		return nil, err
	}
	r := &Recovery{
		UserSeq: w.sb.UserSeq(), Operations: w.sb.Kept().Counted(w.sb.Operation()),
		Generation: w.sb.Generation(), LSN: w.sb.CheckpointLSN(), Length: w.sb.Length(),
	}
	logs, left, err := w.findLogs()
	if err != nil {
		return nil, err
	}
	if err := w.kept.open(w.vol, w.sb, w.now); err != nil {
		return nil, errors.Join(err, logs.close())
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
	err = w.recover(r, logs)
	logs.close()
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
		if layout.SlotIsCut(w.head(), slot, w.sb) {
			cut |= 1 << slot
		}
	}
	if cut == 0 {
		return nil
	}
	return w.copySuperblock(cut)
}

// A replayed has the logs that a recovery reads: the log of the generation that the
// superblock names, and the log of the next generation. They are one file unless the log
// was about to grow.
type replayed struct {
	logs   [2]File // or nil
	shared bool    // they are one file
}

// words returns the words of the logs, nil for a missing log.
func (l replayed) words() (words [2][]uint64) {
	for i, log := range l.logs {
		if log != nil {
			words[i] = log.Words()
		}
	}
	return words
}

// close closes each file once.
func (l replayed) close() error {
	if l.shared {
		l.logs[1] = nil
	}
	return errors.Join(closeLog(l.logs[0]), closeLog(l.logs[1]))
}

// findLogs finds the logs of a live superblock: the log whose header has the salt of the
// superblock, under either name, and the log with the salt of the next generation. It fails
// if the first is missing, or if any log has a record of a later generation than these two:
// then the newest superblock is lost. left reports whether there is a log although the
// superblock is not live: an interrupted close or Begin has left it.
func (w *Writer) findLogs() (found replayed, left bool, err error) {
	var wrong []error // why the logs that exist are neither of the two
	salts := [2]uint64{w.sb.LogSalt(), wal.NextSalt(w.sb.LogSalt())}
	for _, name := range []LogName{CurrentLog, NextLog} {
		log, err := w.vol.OpenLog(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, layout.ErrCorrupt) { // a new log that was not finished, or a log that was cut short
			left = left || errors.Is(err, ErrUnusedLog)
			wrong = append(wrong, err)
			continue
		}
		if err != nil {
			return found, false, errors.Join(fmt.Errorf("open the log: %w", err), found.close())
		}
		if wal.LaterGeneration(log.Words(), w.sb) {
			return found, false, errors.Join(Outdated(w.sb, name), log.Close(), found.close())
		}
		used := false
		for i, salt := range salts {
			h, ok := wal.FindHeader(log.Words(), w.sb.UUID(), salt)
			if ok && h.Bytes == int64(len(log.Words()))*8 && found.logs[i] == nil && w.sb.State() == layout.Live {
				found.logs[i], found.shared, used = log, used, true
			}
		}
		if used {
			continue
		}
		left = left || wal.Owns(log.Words(), w.sb.UUID())
		log.Close()
		wrong = append(wrong, &layout.CorruptError{Region: layout.RegionLog, Rule: "L1", What: fmt.Sprintf(
			"NAME%s is the log of another file or another generation", name)})
	}
	switch {
	case w.sb.State() != layout.Live:
		return found, left, nil
	case found.logs[0] != nil:
		if found.logs[1] == nil { // its header may be lost
			found.logs[1], found.shared = found.logs[0], true
		}
		return found, left, nil
	case wrong != nil:
		return found, false, errors.Join(wrong[0], found.close())
	}
	return found, false, errors.Join(&layout.CorruptError{Region: layout.RegionLog, Rule: "L1", What: "NAME.stash, the log of a file that was not closed, is missing", NoLog: true}, found.close())
}

// Outdated returns the error for a superblock that is not the newest: a newer one has been
// lost.
func Outdated(sb *layout.Superblock, name LogName) error {
	return &layout.CorruptError{Region: layout.RegionSuperblock, Rule: "L2", What: fmt.Sprintf(
		"the newest superblock has generation %d, but NAME%s has records of a later one: a superblock is damaged or the file is an older copy", sb.Generation(), name)}
}

// recover replays the log of a dead writer. If it is interrupted, it can start again:
// the superblock and the log are durable before anything that depends on them is stored,
// and until then no other superblock slot is written.
func (w *Writer) recover(r *Recovery, logs replayed) error {
	runtime := layout.NewView(w.Words()[layout.WordRuntime:], w.geometry).Runtime
	promised := max(layout.Promise(runtime, w.sb.LogSalt()), layout.Promise(runtime, wal.NextSalt(w.sb.LogSalt())))
	scan, err := w.scanLogs(logs, promised)
	if err != nil {
		return err
	}
	// The dead process may have changed names, and died before it made the changes durable (K3).
	// They must be durable before the superblock says clean: no later open syncs the directory.
	if err := w.syncNames(); err != nil {
		return err
	}
	// Once the epoch is odd, readers that find nothing answer "maybe". A live superblock must be durable
	// first: beside a clean or sealed superblock, an odd epoch would stay odd for ever. If the log has a
	// record, one is: this superblock or the one before. If not, no line is dirty, so the sync in settle
	// drops none.
	epoch := runtime[layout.RuntimeEpoch] | 1
	if scan.LSN > w.sb.CheckpointLSN() {
		w.storeRuntime(layout.RuntimeEpoch, epoch)
	}
	if err := w.settle(); err != nil {
		return err
	}
	for from, left := int64(0), promised == 0; left; left = from > 0 { // R4: no commit has done this
		from, _ = w.vol.DropLargePages(from)
	}
	w.storeRuntime(layout.RuntimeEpoch, epoch)
	if err := w.hardenLogs(logs, scan); err != nil {
		return err
	}
	// Pages that a failed sync has dropped may have left the cache after the first scan. From now on the
	// disk has what the cache has.
	if scan, err = w.scanLogs(logs, promised); err != nil {
		return err
	}
	w.replay(logs, scan)
	w.evenCounters(runtime)
	w.storeRuntime(layout.RuntimeEpoch, layout.EpochAfter(epoch))

	w.length, w.userSeq, w.operation = scan.Length, scan.UserSeq, scan.Operation
	w.history, w.lastTime = scan.Kept, scan.Time
	err = w.kept.keep(w.sb.Generation()+1, func(yield func([]uint64, wal.Segment) bool) {
		for _, seg := range scan.Segments {
			if !yield(logs.logs[seg.Log].Words(), seg) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if err := w.syncRegion(); err != nil {
		return err
	}
	next := w.next(layout.Clean)
	next.SetCheckpointLSN(scan.LSN)
	if scan.End[1] != 0 {
		next.SetGeneration(next.Generation() + 1) // the log of the next generation has the number before this one
	}
	if err := w.rest(&next); err != nil {
		return err
	}
	*r = Recovery{
		Recovered: true, UserSeq: scan.UserSeq, Operations: scan.Kept.Counted(scan.Operation), Generation: r.Generation,
		LSN: scan.LSN, Records: scan.Records, LogBytes: scan.Bytes(), Torn: scan.Torn, Length: scan.Length,
	}
	return nil
}

// evenCounters increments the removal counters that an operation left odd. It stores the even ones
// again: after a failed sync, a counter may be even in the cache alone.
func (w *Writer) evenCounters(runtime []uint64) {
	layout.Counters(func(word uint64) {
		if c := atomic.LoadUint64(&runtime[word]); c != 0 {
			w.storeRuntime(word, c+c&1)
		}
	})
}

// scanLogs reads the logs to their end and checks every record against the geometry (L3)
// before any of them is stored.
func (w *Writer) scanLogs(logs replayed, promised uint64) (wal.Contents, error) {
	end := uint64(layout.OffRegion+w.geometry.RegionBytes) / 8
	var bad error
	words := logs.words()
	_, found := wal.FindHeader(words[1], w.sb.UUID(), wal.NextSalt(w.sb.LogSalt()))
	if !found && !logs.shared {
		words[1] = nil // its header has left the cache, and the next recovery would not find this log
	}
	scan, err := wal.Scan(words[0], words[1], w.sb, promised, func(r *wal.Record) {
		r.Each(func(word, _ uint64) {
			if word < layout.WordStash || word >= end {
				bad = &layout.CorruptError{Region: layout.RegionLog, Rule: "L3", What: fmt.Sprintf("a record stores to word %d, outside the stash and the lines", word)}
			}
		})
	})
	if damage := new(layout.CorruptError); logs.shared && !found && errors.As(err, &damage) && damage.Rule == "L5" {
		damage.What += "; if there was a log NAME.stash.new, it is needed too"
	}
	return scan, errors.Join(bad, err)
}

// hardenLogs makes the records that the scan found durable, before anything depends on them.
// They may be only in the cache. After a failed sync, the system considers their pages written
// although they are not. So hardenLogs stores every word again before it syncs.
func (w *Writer) hardenLogs(logs replayed, scan wal.Contents) error {
	for i, log := range logs.logs {
		if scan.End[i] == 0 {
			continue
		}
		words, store := log.Words(), storeRun(log)
		again := func(from, to uint64) { store(from, words[from:min(to, uint64(len(words)))]) }
		again(0, wal.FirstWord)
		again(scan.From[i], (scan.End[i]/wal.PageWords+1)*wal.PageWords)
		if err := w.sync("the log", log); err != nil {
			return err
		}
	}
	return nil
}

// replay stores the last value that the log gives to each word, even if the mapping already
// shows this value, which may be only in the cache. replay does not store earlier values, since
// readers would then see an earlier state of the filter. So it goes through the log from the
// end. It stores in the order of the file, piece by piece, so that each page is read and made
// dirty once.
func (w *Writer) replay(logs replayed, scan wal.Contents) {
	last := make(wordMap)
	var starts []uint64 // of the records of a segment
	for _, seg := range slices.Backward(scan.Segments) {
		log := logs.logs[seg.Log].Words()
		starts = starts[:0]
		for at := seg.Start; uint64(len(starts)) < seg.Records; at = wal.NextRecord(log, at) {
			starts = append(starts, at)
		}
		for _, at := range slices.Backward(starts) {
			r, _ := wal.ReadRecord(log, at)
			r.Each(last.add)
		}
	}
	last.each(w.put)
}

// A wordMap has the values of some words of a file, in pieces of the file.
type wordMap map[uint64]*wordPiece

const pieceWords = 1 << 16 // 512 KiB of a file

// A wordPiece has the values of words of a piece, in the order in which they were added.
type wordPiece struct {
	has    [pieceWords / 64]uint64 // a bit for each word
	words  []uint16                // within the piece
	values []uint64
}

// add adds a word unless it has a value.
func (m wordMap) add(word, value uint64) {
	p := m[word/pieceWords]
	if p == nil {
		p = new(wordPiece)
		m[word/pieceWords] = p
	}
	bits, bit := &p.has[word%pieceWords/64], uint64(1)<<(word%64)
	if *bits&bit != 0 {
		return
	}
	*bits |= bit
	p.words, p.values = append(p.words, uint16(word%pieceWords)), append(p.values, value)
}

// each calls put for every word, by rising pieces.
func (m wordMap) each(put func(word, value uint64)) {
	for _, number := range slices.Sorted(maps.Keys(m)) {
		p := m[number]
		for i, word := range p.words {
			put(number*pieceWords+uint64(word), p.values[i])
		}
	}
}
