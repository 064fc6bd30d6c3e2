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

// A LogSize says how large the log is at first and how large it may become. 0 means a size in
// proportion to the region.
type LogSize struct{ First, Most int64 }

// These are the usual sizes of a log. A checkpoint writes nearly every page of the filter, however few
// operations came since the last checkpoint, and each half of the log ends with a checkpoint. So the
// size of a half decides how much is written per operation. If a half is as large as the region,
// checkpoints write about as much as the log does, and a larger half would gain little. If the region is
// large, the log has usualLog, or 1/logShare of the region up to largestLog. A log smaller than leastLog
// saves nothing, since the syncs of a checkpoint then cost more than the pages that it writes.
//
// The first log is small, because most writers write little. It grows early, so that the larger log can
// take operations while a checkpoint writes the region. Between its bounds it has 1/firstLogShare of the
// size of the region. If it were larger, it would be a noticeable part of a small file; if it were
// smaller, a writer of a medium-sized file would fill it too soon. A log that is too small is replaced
// by one that is logGrowth times as large. With a smaller factor, a busy writer would create many logs
// on its way to the largest; with a larger factor, a writer of bursts would get the largest log at once.
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
