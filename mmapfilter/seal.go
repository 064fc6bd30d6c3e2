package mmapfilter

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Seal is [Filter.Checkpoint], then adds checksums of every byte, so that [Verify] can
// check the file as one that [Build] made, and removes the log. It reads the whole
// file; operations wait meanwhile. A sealed file can be written to like any other: the
// first operation ends the seal.
//
// If ctx is cancelled, the filter is as after Checkpoint, or unchanged if Seal had not
// begun.
func (f *Filter) Seal(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.commit(func(w *writer) error { return w.seal(ctx) })
}

func (w *writer) seal(ctx context.Context) error {
	if err := w.checkpoint(); err != nil {
		return err
	}
	defer w.lockAll()()
	if w.mu.closed {
		return ErrClosed
	}
	if w.log.Superblock().State() == layout.Sealed {
		return w.log.Err()
	}
	if err := w.hardenAll(); err != nil {
		return err
	}
	return w.log.Seal(func(sb *layout.Superblock, store func(word, value uint64)) error {
		tail, err := sealedTail(ctx, w.table, w.log.Geometry(), recovery.Bytes(w.words), sb)
		if err != nil {
			return err
		}
		for i := 0; i < len(tail); i += 8 {
			store(uint64(w.log.Geometry().OffTable+int64(i))/8, binary.LittleEndian.Uint64(tail[i:]))
		}
		return nil
	})
}

// sealedTail makes what a sealed file has from OffTable on: the checksum of every
// chunk, and the trailer for a superblock. It counts the items on the way, which shows
// that none was lost.
func sealedTail(ctx context.Context, t layout.Table, g layout.Geometry, file []byte, sb *layout.Superblock) ([]byte, error) {
	tail := make([]byte, g.SealedBytes-g.OffTable)
	table := tail[:4*g.Chunks]
	view := layout.NewView(recovery.Words(file[layout.OffRuntime:layout.OffRegion+g.RegionBytes]), g)
	var inLines atomic.Uint64
	pieces := newPieces(g)
	run := func(i int) error {
		n, err := sumPiece(t, view.Region, pieces, i, file, table)
		inLines.Add(n)
		return err
	}
	err := forEach(ctx, runtime.GOMAXPROCS(0), pieces.n, file, func() (func(int) error, func() error) {
		return run, func() error { return nil }
	})
	if err != nil {
		return nil, err
	}
	_, inStash, err := layout.CheckStash(t, &view)
	if err != nil {
		return nil, err
	}
	if n := inLines.Load() + inStash; n != sb.Length() {
		return nil, &CorruptError{Region: layout.RegionBuckets, Offset: layout.OffRegion,
			Rule: fmt.Sprintf("F13: the superblock says %d items, but the lines hold %d and the stash %d", sb.Length(), inLines.Load(), inStash)}
	}
	trailer := layout.Trailer(sb, g, table)
	copy(tail[g.OffTrailer-g.OffTable:], trailer[:])
	return tail, nil
}

// sumPiece counts the items in the lines of a piece of a file and makes the checksums
// of its chunks.
func sumPiece(t layout.Table, region []uint64, p pieces, i int, file, table []byte) (items uint64, err error) {
	from, to := p.lines(i)
	items, line, err := t.CheckLines(region, from, to)
	if err != nil {
		return 0, fmt.Errorf("line %d: %w", line, err)
	}
	first, end := p.chunks(i)
	for c := first; c < end; c++ {
		layout.PutChecksum(table, c, layout.ChunkChecksum(p.g.ChunkOf(file, c)))
	}
	return items, nil
}
