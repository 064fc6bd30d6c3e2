package sweep

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Tail makes the part of a sealed file from OffTable on: the checksum of every chunk, and the
// trailer for a superblock. It counts the items on the way, which proves that none was lost.
func Tail(ctx context.Context, t layout.Table, g layout.Geometry, file []byte, sb *layout.Superblock) ([]byte, error) {
	tail := make([]byte, g.SealedBytes-g.OffTable)
	table := tail[:4*g.Chunks]
	view := layout.NewView(recovery.Words(file[layout.OffRuntime:layout.OffRegion+g.RegionBytes]), g)
	var inLines atomic.Uint64
	pieces := NewPieces(g)
	run := func(i int) error {
		n, err := pieces.Sum(t, view.Region, i, file, table)
		inLines.Add(n)
		return err
	}
	err := Each(ctx, runtime.GOMAXPROCS(0), pieces.n, file, func() (func(int) error, func() error) {
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
		return nil, &layout.CorruptError{Region: layout.RegionBuckets, Offset: layout.OffRegion,
			Rule: fmt.Sprintf("F13: the superblock says %d items, but the lines hold %d and the stash %d", sb.Length(), inLines.Load(), inStash)}
	}
	trailer := layout.Trailer(sb, g, table)
	copy(tail[g.OffTrailer-g.OffTable:], trailer[:])
	return tail, nil
}
