package mmapfilter

import (
	"context"
	"encoding/binary"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/sweep"
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
		tail, err := sweep.Tail(ctx, w.table, w.log.Geometry(), recovery.Bytes(w.words), sb)
		if err != nil {
			return err
		}
		for i := 0; i < len(tail); i += 8 {
			store(uint64(w.log.Geometry().OffTable+int64(i))/8, binary.LittleEndian.Uint64(tail[i:]))
		}
		return nil
	})
}
