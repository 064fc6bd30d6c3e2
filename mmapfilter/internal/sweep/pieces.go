package sweep

import (
	"github.com/mmapfilter/mmapfilter/layout"
)

// pieceChunks is the number of chunks in a piece: 1 MiB, which a cache holds.
const pieceChunks = 16

// Pieces cuts a file into tasks: piece i has some of the chunks and a proportional part of the
// lines.
type Pieces struct {
	g layout.Geometry
	n int
}

// NewPieces returns the pieces of a file.
func NewPieces(g layout.Geometry) Pieces {
	return Pieces{g, int((g.Chunks + pieceChunks - 1) / pieceChunks)}
}

// N returns the number of pieces.
func (p Pieces) N() int { return p.n }

// Chunks returns the chunks [from, to) of piece i.
func (p Pieces) Chunks(i int) (from, to int64) {
	return int64(i) * pieceChunks, min(int64(i+1)*pieceChunks, p.g.Chunks)
}

// Bytes returns the file offsets [from, to) of piece i.
func (p Pieces) Bytes(i int) (from, to int64) {
	first, end := p.Chunks(i)
	from, _ = p.g.Chunk(first)
	_, to = p.g.Chunk(end - 1)
	return from, to
}

// Lines returns the lines [from, to) that start in piece i.
func (p Pieces) Lines(i int) (from, to uint64) {
	start, stop := p.Bytes(i)
	return p.g.LineFrom(start), p.g.LineFrom(stop)
}

// Sum counts the items in the lines of piece i of a file and puts the checksums of its chunks
// into a checksum table.
func (p Pieces) Sum(t layout.Checks, region []uint64, i int, file, table []byte) (items uint64, err error) {
	from, to := p.Lines(i)
	items, _, err = layout.CheckLines(t, region, from, to)
	if err != nil {
		return 0, err
	}
	first, end := p.Chunks(i)
	for c := first; c < end; c++ {
		layout.PutChecksum(table, c, layout.ChunkChecksum(p.g.ChunkOf(file, c)))
	}
	return items, nil
}
