package osfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Remains are what is left of the history of a filter whose file or superblock is damaged.
type Remains struct {
	// Superblock is the newest intact superblock, but with the counters as they were after the last
	// operation that is left.
	Superblock *layout.Superblock
	// Kept has NAME.hashes, and the operations of the log after those of NAME.hashes.
	Kept recovery.Kept
	// Lost is how many records of operations are known to have been durable in the log, and are no
	// longer there. If LogLost is set, the log is missing, or it had more records than are readable
	// now: nobody knows how much is lost, and some of it may have been durable.
	Lost    uint64
	LogLost bool
}

// Salvage finds what is left of the history of the filter at path, which cannot be recovered. It writes
// nothing. The pages of NAME.hashes whose checks are chained are a part of the history, whether a
// superblock counts them or not. The operations that a log has after the end of these pages belong to
// the Remains, too, if they lead to the positions of its commits. If there is a log, of this filter or
// of another one, that does not continue these pages, the error is layout.ErrCorrupt, because nobody
// should remove this log.
func Salvage(path string) (*Remains, error) {
	sb, rest, runtime, err := readDamaged(path)
	if err != nil {
		return nil, err
	}
	kept, err := OpenHashesOf(path, sb)
	if err != nil {
		return nil, err
	}
	kept.ReadOn()
	r := &Remains{Superblock: sb, Kept: kept}
	if err := r.readLogs(path, rest, runtime); err != nil {
		return nil, errors.Join(err, kept.File.Close())
	}
	return r, nil
}

// readDamaged reads the newest superblock and the runtime page of a file that may be cut short. rest
// is true if the file is certainly at rest, since all four copies have this superblock.
func readDamaged(path string) (sb *layout.Superblock, rest bool, runtime []uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, nil, err
	}
	defer f.Close()
	words := make([]uint64, layout.WordStash)
	n, err := f.ReadAt(recovery.Bytes(words), 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, nil, err
	}
	if _, sb, _, err = layout.Newest(recovery.Bytes(words)[:min(n, layout.OffRuntime)]); err != nil {
		return nil, false, nil, err
	}
	rest = sb.State() != layout.Live
	for slot := range layout.SuperblockSlots {
		rest = rest && slices.Equal(words[slot*len(sb)/8:][:len(sb)/8], recovery.Words(sb[:]))
	}
	return sb, rest, words[layout.WordRuntime:], nil
}

// A logRun is what a log has from the beginning of one generation on.
type logRun struct {
	wal.Contents
	header  wal.Header
	entries []hashes.Entry
	commits []logCommit
	broken  bool // the bytes after the end are damaged
}

// A logCommit is a commit after a number of entries.
type logCommit struct {
	entries int
	at      layout.Position
}

// readLogs adds to r the operations of a log of the file that come after those of NAME.hashes.
func (r *Remains) readLogs(path string, rest bool, runtime []uint64) error {
	runs, others, unknown, err := r.runs(path)
	if err != nil {
		return err
	}
	sb, live := r.Superblock, r.Superblock.State() == layout.Live
	durable := sb.CheckpointLSN()
	if live {
		durable = max(durable, layout.Promise(runtime, sb.LogSalt()), layout.Promise(runtime, wal.NextSalt(sb.LogSalt())))
	}
	var best *logRun
	var entries []hashes.Entry
	var beyond uint64 // the highest LSN of the logs that do not continue NAME.hashes
	newest, reached := false, sb.CheckpointLSN()
	for i := range runs {
		run := &runs[i]
		durable = max(durable, run.Durable, layout.Promise(runtime, run.header.Salt), layout.Promise(runtime, wal.NextSalt(run.header.Salt)))
		after, whole := run.after(r.Kept.To, sb)
		switch {
		case !whole:
			beyond = max(beyond, run.LSN)
		case best == nil || run.LSN > best.LSN:
			best, entries, reached = run, after, max(run.LSN, sb.CheckpointLSN())
		}
		newest = newest || whole && (run.header.Generation > sb.Generation() || live && run.header.Salt == sb.LogSalt())
	}
	unjoined := len(runs) > 0 && best == nil || best != nil && len(best.entries) == 0 && beyond > reached
	if unjoined || others && !newest && !rest {
		return &layout.CorruptError{Region: layout.RegionLog, Rule: "K2", What: fmt.Sprintf(
			"the log does not go on where NAME.hashes ends, after operation %d, or belongs to another filter: move it away to do without it", r.Kept.To.Number)}
	}
	// The superblock may be older than the lost log; then only the promise shows that a log
	// existed.
	r.LogLost = live && !newest || best != nil && (best.broken || beyond > reached) ||
		!rest && (unknown && !newest || layout.HighestPromise(runtime) > max(durable, reached))
	next := *sb
	if best != nil {
		r.Kept.More = entries
		next.SetGeneration(max(next.Generation(), best.header.Generation+1))
		next.SetCheckpointLSN(max(sb.CheckpointLSN(), best.LSN))
		next.SetLastTime(max(next.LastTime(), best.Time))
		if best.LSN > sb.CheckpointLSN() {
			seq, operation := best.UserSeq, best.Operation
			if len(best.commits) == 0 { // the log begins where the superblock is
				seq, operation = sb.UserSeq(), sb.Operation()+uint64(uint32(operation)-uint32(sb.Operation()))
			}
			next.SetUserSeq(seq)
			next.SetOperation(operation)
			if k := sb.Kept(); sb.Follows() && (best.Kept.Set != 0 || best.Kept.Followed != layout.Position{}) { // a mark
				k.Followed, k.Set = best.Kept.Followed, best.Kept.Set
				next.SetKept(k)
			}
		}
	}
	r.Superblock, r.Lost = &next, max(durable, reached)-reached
	r.Kept.AgesFrom = next.AgesFrom()
	return nil
}

// runs reads the logs beside the file: for each header of a log, the log from this generation on.
// others says whether there is a log of another filter, and unknown whether there is a log without
// a readable UUID.
func (r *Remains) runs(path string) (runs []logRun, others, unknown bool, err error) {
	path, err = realPath(path)
	if err != nil {
		return nil, false, false, err
	}
	v := &Files{path: path}
	var logs []recovery.File
	defer func() {
		for _, log := range logs {
			log.Close()
		}
	}()
	type begin struct {
		log recovery.File
		wal.Header
	}
	var all, begins []begin
	ours := [][16]byte{r.Superblock.UUID()} // and the UUID that a sealed file gets with its first operation
	for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
		log, err := v.OpenLog(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, layout.ErrCorrupt):
			unknown = true
			continue
		case err != nil:
			return nil, false, false, err
		}
		logs = append(logs, log)
		headers := wal.Headers(log.Words())
		unknown = unknown || len(headers) == 0
		for _, h := range headers {
			all = append(all, begin{log, h})
			if h.UUID == wal.NextUUID(ours[0], h.Salt) {
				ours = append(ours, h.UUID)
			}
		}
	}
	for _, b := range all {
		if slices.Contains(ours, b.UUID) {
			begins = append(begins, b)
		} else {
			others = true
		}
	}
	for _, b := range begins {
		next := b.log
		for _, other := range begins {
			if other.Generation == b.Generation+1 && other.Salt == wal.NextSalt(b.Salt) {
				next = other.log
			}
		}
		run := logRun{header: b.Header}
		fault := catch(func() { run.read(b.log.Words(), next.Words()) }, func(error) {}, recovery.Bytes(b.log.Words()), recovery.Bytes(next.Words()))
		if fault != nil {
			return nil, false, false, fault
		}
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b logRun) int { return cmp.Compare(a.header.Generation, b.header.Generation) })
	return runs, others, unknown, nil
}

func (run *logRun) read(log, next []uint64) {
	committed := 0 // entries
	var err error
	cut := int64(len(log))*8 < run.header.Bytes
	log, next = ofSize(log, run.header), ofSize(next, run.header)
	run.Contents, err = wal.Salvage(log, next, run.header, func(rec *wal.Record) {
		if rec.Op != 0 {
			run.entries = append(run.entries, hashes.Entry{Op: rec.Op, Items: rec.Grow, Hash: rec.Hash})
		}
	}, func(c wal.Commit) {
		for ; committed < len(run.entries); committed++ {
			run.entries[committed].Time = c.Mark
		}
		run.commits = append(run.commits, logCommit{committed, c.At})
	})
	for ; committed < len(run.entries); committed++ {
		run.entries[committed].Time = max(run.Time, 1)
	}
	run.broken = run.Broken || cut || err != nil
}

// ofSize returns a log with the size that it had: the size in its own header, of the generation
// of h or of the next one, or else the size in h.
func ofSize(log []uint64, h wal.Header) []uint64 {
	for _, own := range wal.Headers(log) {
		if own.Generation == h.Generation || own.Generation == h.Generation+1 {
			h.Bytes = own.Bytes
		}
	}
	if missing := h.Bytes/8 - int64(len(log)); missing > 0 {
		return append(slices.Clone(log), make([]uint64, missing)...)
	}
	return log[:h.Bytes/8]
}

// after returns the entries after a position. whole says whether the run continues from there:
// whether its entries lead from this position to the positions of its commits.
func (run *logRun) after(end layout.Position, sb *layout.Superblock) (rest []hashes.Entry, whole bool) {
	var before uint64 // operations before the first entry
	switch {
	case run.Records == 0 && len(run.commits) == 0:
		return nil, true
	case len(run.commits) > 0:
		before = run.commits[0].at.Number - uint64(run.commits[0].entries)
	case run.LSN-run.Records == sb.CheckpointLSN(): // no commit: the log begins where the superblock is
		before = sb.Kept().At.Number
	default:
		return nil, false
	}
	if end.Number > before+uint64(len(run.entries)) {
		return nil, true // NAME.hashes has them all
	}
	if end.Number < before {
		return nil, false
	}
	skip := int(end.Number - before)
	commits := run.commits
	for len(commits) > 0 && commits[0].entries < skip {
		commits = commits[1:]
	}
	at := end
	for i := skip; ; i++ {
		for len(commits) > 0 && commits[0].entries == i {
			if commits[0].at != at {
				return nil, false
			}
			commits = commits[1:]
		}
		if i == len(run.entries) {
			return run.entries[skip:], true
		}
		e := &run.entries[i]
		e.After = at.After(e.Op, e.Hash)
		at = e.After
	}
}
