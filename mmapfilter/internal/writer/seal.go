package writer

import (
	"context"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Seal makes a checkpoint, adds the checksums of a sealed file, and removes the log.
func (w *Writer) Seal(ctx context.Context) error {
	if err := w.Checkpoint(); err != nil {
		return err
	}
	defer w.LockAll()()
	if w.mu.closed != nil {
		return w.mu.closed
	}
	if w.protocol.Superblock().State() == layout.Sealed {
		return w.protocol.Err()
	}
	if err := w.commitLocked(boundary{}, false); err != nil {
		return err
	}
	sb, err := w.protocol.BeginSeal()
	if err != nil {
		return err
	}
	tail, err := build.Tail(ctx, w.table, w.protocol.Geometry(), recovery.Bytes(w.words), sb)
	if err != nil {
		return err
	}
	return w.protocol.Seal(sb, tail)
}
