package mmapfilter

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// ExpireBefore deletes the items that were inserted before t, which it finds in the kept hashes (K6),
// and returns how many it has deleted. Other operations go on meanwhile. A filter with
// [Options.ExpireAfter] deletes its old items by itself.
//
// The time of an insert is the time of its commit, or of the recovery if the process dies before the
// commit. Times are exact to a second. A rebuild puts the items into at most 64 ages, and keeps only the
// times of the ages. With ExpireAfter, an age spans ExpireAfter/32; otherwise, all ages have about the
// same number of items. Items that may have been inserted at t or later stay. Of several items of one
// key, ExpireBefore takes the oldest first, as Delete does. An InsertUnique of a key that is in the
// filter does not make the key younger.
//
// Do not delete a key that has expired: it is not in the filter any more (see
// [Filter.Delete]). Once [Filter.InsertUnique] has left a key out, expired items stay until
// the next rebuild, as deleted items do.
//
// [Filter.DurableOps] counts these deletes like all other operations, so call [Filter.SyncAt] after
// ExpireBefore if you use DurableOps. If ExpireBefore is cut off, by an error, a cancelled context
// or a crash, call it again: it goes on with the remaining items. The errors are [ErrNoHashes] and
// those of [Filter.Delete].
func (f *Filter) ExpireBefore(ctx context.Context, t time.Time) (n uint64, err error) {
	if _, err := f.writable(); err != nil {
		return 0, err
	}
	if !t.After(time.Unix(0, 0)) {
		return 0, nil
	}
	before := uint64(math.MaxInt64)
	if t.Before(time.Unix(0, math.MaxInt64)) {
		before = uint64(t.UnixNano())
	}
	ctx, cancel := f.growth.call(ctx)
	defer cancel()
	f.growth.take()
	defer f.growth.Unlock()
	o, err := f.writable()
	if err == nil && o.work.Writer.Protocol().HashesErr() == nil {
		o, err = f.changeable()
	}
	if err != nil {
		return 0, err
	}
	if n, err = f.expire(ctx, o, before, 0, true); err != nil {
		return n, about("expire", o.path, err)
	}
	return n, nil
}

// expire is ExpireBefore for an open file. If spread is not 0, expire spreads the deletes over this
// time. counted says whether DurableOps counts the deletes. REQUIRES: f.growth.
func (f *Filter) expire(ctx context.Context, o *openFile, before uint64, spread time.Duration, counted bool) (n uint64, err error) {
	w, path := o.work.Writer, build.Beside(o.work.Files.Path())
	tap := writer.NewTap(path.Scratch)
	defer tap.Close()
	defer w.Untap()
	var kept recovery.Kept
	err = w.Protocol().HashesErr()
	if err == nil {
		err = o.work.Catch(func() (err error) {
			kept, err = w.StartTap(tap)
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	workers := runtime.GOMAXPROCS(0)
	if spread > 0 { // in the background
		workers = 1
	}
	m, err := build.OpenKept(ctx, path, workers, build.KeptBudget, []recovery.Kept{kept}, build.Expired(before))
	if err != nil {
		return 0, err
	}
	defer m.Close()
	stolen := make(map[layout.Class]bool)
	if err := m.Strays(ctx, func(hash uint64) { stolen[o.table.Class(o.table.Split(hash))] = true }); err != nil {
		return 0, err
	}
	var old []uint64
	deleted := make(map[uint64]uint64) // hashes that other calls delete meanwhile
	pace := deletePace{spread: spread, begun: time.Now(), parts: m.Parts()}
	err = m.Each(ctx, func(sorted []uint64, ages []uint8) error {
		old = old[:0]
		for i, h := range sorted {
			if ages[i] == 0 {
				old = append(old, h)
			}
		}
		for i := 0; i < len(old); i += writer.Batch {
			err := o.work.Catch(func() error {
				done, err := w.Expire(old[i:min(i+writer.Batch, len(old))], tap, deleted, stolen, counted)
				n += done
				return err
			})
			if err == nil {
				err = pace.rest(ctx, float64(i)/float64(len(old)))
			}
			if err != nil {
				return err
			}
		}
		pace.done++
		return nil
	})
	f.growth.expiry.deleted.Add(n)
	if n > 0 {
		f.deleted(o)
	}
	return n, err
}

// A deletePace spreads deletes over a time, part by part.
type deletePace struct {
	spread      time.Duration
	begun       time.Time
	parts, done int
}

// mostRest is the longest rest. So a few deletes end long before the whole time is over.
const mostRest = 20 * time.Millisecond

// rest waits until it is time for more deletes. share is the share of the current part that is done.
func (p *deletePace) rest(ctx context.Context, share float64) error {
	if p.spread == 0 {
		return nil
	}
	due := time.Duration(float64(p.spread) * (float64(p.done) + share) / float64(p.parts))
	rest := min(time.Until(p.begun.Add(due)), mostRest)
	if rest > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
	return context.Cause(ctx)
}
