package mmapfilter

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/builder"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"
)

// ExpireBefore deletes the items that were inserted before t, by the hashes that the filter has
// kept (K6), and returns how many it has deleted. Other operations go on meanwhile.
//
// The time of an insert is that of its commit. Times are exact to a second, and after a rebuild to
// the span of an age: a rebuild leaves at most 64 ages, each with about as many items as the
// others. What may be younger than t stays. Of several items of one key, deletes take the oldest
// first, and so does ExpireBefore.
//
// Delete no key after it may have expired: such a delete may remove another key (C6), and then the
// kept hashes no longer match the items, so that no rebuild succeeds until one from
// [RebuildOptions.Keys].
//
// The deletes are ordinary operations, which count in [Filter.DurableOps] like all others: note a
// position with [Filter.SyncAt] after it. If it is cut off, by an error, a cancelled context or a
// crash, call it again: it goes on with what is left. The errors are [ErrNoHashes] and those of
// [Filter.Delete].
func (f *Filter) ExpireBefore(ctx context.Context, t time.Time) (n uint64, err error) {
	o, err := f.writable()
	if err != nil {
		return 0, err
	}
	if !t.After(time.Unix(0, 0)) {
		return 0, nil
	}
	before := uint64(math.MaxInt64)
	if t.Before(time.Unix(0, math.MaxInt64)) {
		before = uint64(t.UnixNano())
	}
	if n, err = f.expire(ctx, before); err != nil {
		return n, about("expire", o.path, err)
	}
	return n, nil
}

func (f *Filter) expire(ctx context.Context, before uint64) (n uint64, err error) {
	f.growth.Lock()
	defer f.growth.Unlock()
	o, err := f.writable()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.growth.life, func() { cancel(ErrClosed) })()
	w, path := o.work.Writer, builder.Beside(o.work.Files.Path())
	tap := engine.NewTap(path.Scratch)
	defer tap.Close()
	defer w.Untap()
	var kept builder.Kept
	err = w.Protocol().HashesErr()
	if err == nil {
		err = o.work.Catch(func() (err error) {
			kept.File, kept.Counted, err = w.StartTap(tap)
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	m, err := builder.OpenKept(ctx, path, runtime.GOMAXPROCS(0), builder.KeptBudget, []builder.Kept{kept}, builder.Expired(before))
	if err != nil {
		return 0, err
	}
	defer m.Close()
	var old []uint64
	deleted := make(map[uint64]uint64) // by others, meanwhile
	err = m.Each(ctx, func(sorted []uint64, ages []uint8) error {
		old = old[:0]
		for i, h := range sorted {
			if ages[i] == 0 {
				old = append(old, h)
			}
		}
		return o.work.Catch(func() error {
			done, err := w.Expire(old, tap, deleted)
			n += done
			return err
		})
	})
	if n > 0 {
		f.deleted(o)
	}
	return n, err
}
