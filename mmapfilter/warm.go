package mmapfilter

import (
	"context"
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Warm reads the whole file into memory and into the page table of this process, as far as it is not
// there, and returns when no lookup has to wait for the disk. Lookups go on meanwhile. If the filter
// changes its file meanwhile, Warm goes on with the new one. It is for readiness probes;
// [OpenOptions.Progress] is called with the progress. A file that is larger than the memory does not
// stay there.
//
// The errors are that of the context; [ErrClosed], also for the filter of a file that a [Follower] no
// longer uses; and [ErrCorrupt] if the file cannot be read.
func (f *Filter) Warm(ctx context.Context) error {
	for {
		o := f.open.Load()
		if o == nil {
			return f.Err()
		}
		if err := o.warm(ctx); f.open.Load() == o { // neither closed nor rebuilt
			return err
		}
	}
}

func (o *openFile) warm(ctx context.Context) error {
	if err := ctx.Err(); err != nil || o.mapping == nil { // ResidencyHeap
		return err
	}
	if o.released.Load() {
		return ErrClosed
	}
	if o.heedWriter(); o.work != nil {
		o.work.Writer.EndUnsealing() // a commit would drop what Warm has read
	}
	err := o.populate(o.mapping, func(done, total int64) bool {
		if o.progress != nil {
			o.progress(done, total)
		}
		return ctx.Err() == nil
	})
	fault := new(osfile.FaultError)
	switch {
	case errors.As(err, &fault):
		return about("read", o.path, build.Damage(o.geometry, fault))
	case err == nil && o.released.Load():
		return ErrClosed
	case err == nil:
		return ctx.Err()
	}
	return err
}

// Warm is [Filter.Warm] of the file in use. While the follower waits for a file (see
// [OpenOptions.WaitForFile]), the error is fs.ErrNotExist.
func (f *Follower) Warm(ctx context.Context) error {
	for {
		filter := f.filter.Load()
		if err := filter.Warm(ctx); f.filter.Load() == filter {
			return err
		}
	}
}
