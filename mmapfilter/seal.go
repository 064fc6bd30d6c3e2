package mmapfilter

import (
	"context"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// Seal is [Filter.Checkpoint], then adds checksums of every byte, so that [Verify] can check the
// file like one from [Build], and removes the log. It reads the whole file; operations wait
// meanwhile. A sealed file can be written to like any other: the first operation ends the seal.
//
// If ctx is cancelled, the filter is as after Checkpoint, or unchanged if Seal had not begun.
func (f *Filter) Seal(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.commit(func(w *writer.Writer) error { return w.Seal(ctx) })
}
