package recovery

import (
	"iter"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Recent has the operations of the history that are durable and come after those that the newest
// superblock counts. They are in the log.
type Recent struct {
	Superblock *layout.Superblock
	To         layout.Position
	// The user sequence at To, and the number of operations after it.
	UserSeq, Operations uint64
	parts               []endedPart
}

// An endedPart is a generation of a log.
type endedPart struct {
	words            []uint64
	generation, salt uint64
}

// Recent returns the recent operations. The result is valid until the next EndCheckpoint, Clean, Seal or
// Detach.
func (w *Writer) Recent() Recent {
	d := w.durable.Load()
	r := Recent{Superblock: w.sb, To: d.history.At, UserSeq: d.userSeq, Operations: d.history.Counted(d.operation)}
	if c := w.underWay.Load(); c != nil {
		r.parts = append(r.parts, endedPart{c.ended.Words(), c.generation, c.salt})
	}
	if w.lw != nil {
		generation, salt := w.lw.Generation()
		r.parts = append(r.parts, endedPart{w.log.Words(), generation, salt})
	}
	return r
}

// All yields the operations, without their times, in order. More operations may be appended meanwhile.
func (r *Recent) All() iter.Seq[hashes.Entry] {
	return func(yield func(hashes.Entry) bool) {
		at := r.Superblock.Kept().At
		for _, p := range r.parts {
			if at.Number >= r.To.Number {
				return
			}
			// Stop at the last durable segment, since the head of the next one may be half stored.
			for seg := range wal.Ended(p.words, p.generation, p.salt) {
				more := true
				seg.Each(p.words, func(rec wal.Record) {
					if rec.Op != 0 && more {
						at = at.After(rec.Op, rec.Hash)
						more = yield(hashes.Entry{Op: rec.Op, Items: rec.Grow, Hash: rec.Hash, After: at})
					}
				})
				if !more {
					return
				}
				if at.Number >= r.To.Number {
					break
				}
			}
		}
	}
}
