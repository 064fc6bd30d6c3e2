package build

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// pieceChunks is the number of chunks in a piece: 1 MiB, which fits in a cache. A piece is read
// twice, by chunks and by lines.
const pieceChunks = 16

// pieces cut a file into tasks: piece i has some of the chunks and a proportional part of the lines.
type pieces struct {
	g layout.Geometry
	n int
}

func newPieces(g layout.Geometry) pieces {
	return pieces{g, int((g.Chunks + pieceChunks - 1) / pieceChunks)}
}

// chunks returns the chunks [from, to) of piece i.
func (p pieces) chunks(i int) (from, to int64) {
	return int64(i) * pieceChunks, min(int64(i+1)*pieceChunks, p.g.Chunks)
}

// bytes returns the file offsets [from, to) of piece i.
func (p pieces) bytes(i int) (from, to int64) {
	first, end := p.chunks(i)
	from, _ = p.g.Chunk(first)
	_, to = p.g.Chunk(end - 1)
	return from, to
}

// lines returns the lines [from, to) that start in piece i.
func (p pieces) lines(i int) (from, to uint64) {
	start, stop := p.bytes(i)
	return p.g.LineFrom(start), p.g.LineFrom(stop)
}

// sum checks the lines of piece i of a file, counts their items, and puts the checksums of its chunks
// into a checksum table.
func (p pieces) sum(t layout.Checks, region []uint64, i int, file, table []byte) (items uint64, err error) {
	from, to := p.lines(i)
	items, err = layout.CheckLines(p.g, t, region, from, to)
	if err != nil {
		return 0, err
	}
	first, end := p.chunks(i)
	for c := first; c < end; c++ {
		layout.PutChecksum(table, c, layout.ChunkChecksum(p.g.ChunkOf(file, c)))
	}
	return items, nil
}

// viewOf returns the view of a file.
func viewOf(file []byte, g layout.Geometry) layout.View {
	return layout.NewView(recovery.Words(file[layout.OffRuntime:layout.OffRegion+g.RegionBytes]), g)
}

// sumAll checks the lines and the stash of a file, counts the items in each, and puts the checksums of
// all chunks into a checksum table. It calls done after each piece.
func sumAll(ctx context.Context, workers int, t layout.Table, g layout.Geometry, file, table []byte, done func()) (inLines, inStash uint64, err error) {
	view, pieces := viewOf(file, g), newPieces(g)
	var items atomic.Uint64
	err = Parallel(ctx, workers, pieces.n, file, func(_ context.Context, _, i int) error {
		n, err := pieces.sum(t, view.Region, i, file, table)
		items.Add(n)
		done()
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if fault := osfile.Catch(file, func() { _, inStash, err = layout.CheckStash(t, &view) }); fault != nil {
		err = fault
	}
	return items.Load(), inStash, err
}

// Tail returns the part of a sealed file from OffTable on: the checksum of every chunk, and the trailer
// for a superblock. It also counts the items, which proves that none was lost.
func Tail(ctx context.Context, t layout.Table, g layout.Geometry, file []byte, sb *layout.Superblock) ([]byte, error) {
	tail := make([]byte, g.SealedBytes-g.OffTable)
	table := tail[:4*g.Chunks]
	inLines, inStash, err := sumAll(ctx, runtime.GOMAXPROCS(0), t, g, file, table, func() {})
	if err != nil {
		return nil, err
	}
	if e := checkCount(sb, inLines, inStash); e != nil {
		return nil, e
	}
	trailer := layout.Trailer(sb, g, table)
	copy(tail[g.OffTrailer-g.OffTable:], trailer[:])
	return tail, nil
}

// checkCount checks that a file has as many items as its superblock says.
func checkCount(sb *layout.Superblock, inLines, inStash uint64) *layout.CorruptError {
	if inLines+inStash == sb.Length() {
		return nil
	}
	return &layout.CorruptError{Region: layout.RegionSuperblock, Rule: "F13", What: fmt.Sprintf("the superblock says %d items, but the lines hold %d and the stash %d", sb.Length(), inLines, inStash)}
}
