package writer

import (
	"context"
	"encoding/binary"

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
	if err := w.hardenAll(); err != nil {
		return err
	}
	return w.protocol.Seal(func(sb *layout.Superblock, store func(word, value uint64)) error {
		tail, err := build.Tail(ctx, w.table, w.protocol.Geometry(), recovery.Bytes(w.words), sb)
		if err != nil {
			return err
		}
		for i := 0; i < len(tail); i += 8 {
			store(uint64(w.protocol.Geometry().OffTable+int64(i))/8, binary.LittleEndian.Uint64(tail[i:]))
		}
		return nil
	})
}
