package writer

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Open takes over a volume and recovers it if its writer has died.
func Open(vol recovery.Volume, log LogSize) (*Writer, *recovery.Recovery, error) {
	protocol, found, err := recovery.NewWriter(vol)
	if err != nil {
		return nil, nil, err
	}
	g := protocol.Geometry()
	log = log.withDefaults(g.RegionBytes)
	w := &Writer{
		Limit:    math.MaxUint64,
		vol:      vol,
		protocol: protocol,
		table:    layout.NewTable(g),
		words:    protocol.Words(),
		view:     layout.NewView(protocol.Words()[layout.WordRuntime:], g),
		firstLog: log.First,
		mostLog:  log.Most,
		stash:    make([]uint64, layout.StashWords),
	}
	w.looks = w.table
	w.most = place.MaxStores(w.table)
	w.keptLines = 1
	if _, n := w.table.Words(0); n == layout.BlockWords { // lines share no words
		w.keptLines = keptLines
	}
	if protocol.Superblock().KeepsHashes() {
		w.most += recovery.HashStores
	}
	w.newest, w.before = w.Word, w.loadBlock
	copy(w.stash, w.words[layout.WordStash:])
	w.under = layout.ViewOf(w.view.Region, w.stash, w.runtime[:])
	w.length.Store(protocol.Length())
	w.follows.Store(protocol.Follows())
	w.mu.op = operation{w: w}
	w.mu.spare = NewPending(0)
	w.mu.placer = place.New(w.table, &w.mu.op)
	w.mu.stashed.count(w.table, w.stash)
	return w, found, nil
}

// A LogSize says how large the log is at first and how far it may grow. 0 means a size in
// proportion to the region.
type LogSize struct{ First, Most int64 }

// The usual size of a log. A checkpoint writes nearly every page of the filter, however few
// operations came since the last checkpoint, and each half of the log ends with one. So the size of
// a half decides how much is written for an operation. If a half is as large as the region,
// checkpoints write about as much as the log, and a larger half would gain little. If the region is
// large, the log has usualLog, or one part in logShare of the region up to largestLog. A log
// smaller than leastLog saves nothing, since then the syncs of a checkpoint cost more than the
// pages that it writes.
//
// The first log is small: most writers write little. It grows early, so that the larger log can take
// operations while a checkpoint writes the region. Between its bounds it is one part in
// firstLogShare of the region: a larger first log would be a noticeable part of a small file; a
// smaller one would be full before a writer of a file of medium size has done much. A log that is
// too small is made logGrowth times as large: with a smaller factor, a busy writer would make many
// logs on its way to the largest; with a larger one, a writer of bursts would get the largest at
// once.
const (
	leastFirstLog = 256 << 10
	mostFirstLog  = 1 << 20
	firstLogShare = 64
	logGrowth     = 16
	leastLog      = 16 << 20
	usualLog      = 128 << 20
	largestLog    = 1 << 30
	logShare      = 8
)

func (s LogSize) withDefaults(regionBytes int64) LogSize {
	if s.Most == 0 {
		s.Most = max(min(2*regionBytes, usualLog), leastLog, min(regionBytes/logShare, largestLog)) / wal.PageBytes * wal.PageBytes
	}
	if s.First == 0 {
		s.First = min(max(regionBytes/firstLogShare, leastFirstLog), mostFirstLog, s.Most) / wal.PageBytes * wal.PageBytes
	}
	return s
}
