package mmapfilter

import (
	"context"
	"errors"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// Apply reads changes from r, as [Filter.Changes] writes them, and applies them to a replica, each
// exactly once (K9 of package recovery). It returns the position of the replica, which is now the
// position that the changes lead to. Lookups and syncs go on meanwhile; lookups see each change at once.
//
// A replica is a [Filter.Snapshot] of a filter that keeps its hashes. (In a copy of any other filter a
// key may depend on another key's item, and the changes might delete that item.) A replica may be looked
// up, synced, sealed and copied. Any other operation, such as Insert or SyncAt, turns the replica into
// an ordinary filter, which no longer follows another filter and takes no changes.
//
// A replica without hashes does not grow, and has no changes for others ([ErrNoHashes]). A replica
// with hashes, made by [Filter.SnapshotWithHashes], takes no changes by class. It grows by itself if
// the other filter does, even while Apply runs, and it may be rebuilt from its hashes. It also has a
// history of its own, with another descent: Snapshot makes replicas that follow this history, and
// Changes writes the changes for them.
//
// [Filter.DurableSeq] and [Filter.DurableOps] of the replica become those of the other filter at the
// position. While the replica has only some of the changes that Apply has read, both are 0.
//
// Apply first reads and checks all changes, and writes them durably to NAME.apply; only then does it
// make the first one. The position moves once all are made. If Apply is cut off in between, by an error,
// ctx, Close or a crash, the next Apply or [Open] finishes these changes first. Until then the filter
// has only some of them, and its own operations return [ErrApplying].
//
// ctx does not interrupt a Read of r, and Apply, Close and the filter's own operations wait until the
// Read returns. So use an r whose Read ends when ctx does, such as the body of an HTTP response.
//
// If the filter has the changes already, nothing happens. The errors are [ErrNotReplica];
// [ErrOtherDescent] for changes of another filter, or of the same filter after it was restored from a
// backup and had other operations; [ErrChangesGap] if other changes must come first (ask for the changes
// since [Filter.Position]); [ErrOtherClasses] for changes that were made for a replica with other
// [Classes]; [ErrCorrupt] or [io.ErrUnexpectedEOF] for changes that are damaged or cut off; [ErrVersion]
// for changes from a newer version; [ErrFull] if there is no room for the changes; [ErrCorrupt] if the
// filter or NAME.apply lacks what it should have; and those of r, ctx and [Filter.Sync]. After an
// ErrFull, rebuild the replica if it keeps hashes, and otherwise take a new snapshot. If an ErrCorrupt
// says to take a new snapshot, do so.
func (f *Filter) Apply(ctx context.Context, r io.Reader) (Position, error) {
	ctx, cancel := f.growth.call(ctx)
	defer cancel()
	o, err := f.applyAll(ctx, r)
	switch {
	case o == nil:
		return Position{}, err
	case err != nil:
		return Position{}, about("apply changes to", o.path, err)
	}
	f.inserted(o)
	f.deleted(o)
	return f.Position(), nil
}

// applyAll applies the changes that r has. If r is nil, it finishes changes that Apply has begun. If
// there is no room for a change, applyAll waits for a growth, and goes on in the new file. o is nil if
// no file is open for writing.
func (f *Filter) applyAll(ctx context.Context, r io.Reader) (o *openFile, err error) {
	for {
		o, err = f.applySome(ctx, r)
		full := new(writer.FullError)
		if !errors.As(err, &full) { // if the filter keeps no hashes, the error is never a FullError
			return o, err
		}
		if full.Begun { // r has been read
			r = nil
		}
		if err := f.makeRoom(o, full.Hash); err != nil {
			return o, err
		}
	}
}

// applySome is applyAll until there is no room for a change.
func (f *Filter) applySome(ctx context.Context, r io.Reader) (*openFile, error) {
	f.growth.Lock() // no rebuild replaces the file meanwhile, and Close waits
	defer f.growth.Unlock()
	o, err := f.writable()
	if err != nil {
		return nil, err
	}
	return o, o.work.Catch(func() error {
		if r == nil {
			return o.work.Writer.Resume(ctx)
		}
		return o.work.Writer.Apply(ctx, r)
	})
}

// resume finishes changes that an earlier Apply began. If resume fails, the next Apply returns the
// error.
func (f *Filter) resume() {
	if o := f.open.Load(); o.work.Writer.Follows() {
		if _, err := f.applyAll(context.Background(), nil); err != nil && o.work.OnError != nil {
			o.work.OnError(about("apply changes to", o.path, err))
		}
	}
}

// changeable is like writable, for the filter's own operations: it makes a replica depart first, so that
// it follows no other filter from then on.
func (f *Filter) changeable() (*openFile, error) {
	for {
		o, err := f.writable()
		if err != nil || !o.work.Writer.Follows() {
			return o, err
		}
		if err := o.work.Catch(o.work.Writer.Depart); err != writer.ErrMoved {
			return o, err
		}
	}
}
