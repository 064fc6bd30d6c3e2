package pebbleguard

import (
	"bytes"
	"context"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A Batch is a pebble.Batch that is committed to a DB. Methods that are not listed here come from
// the pebble.Batch.
type Batch struct {
	*pebble.Batch
	db *DB
}

// NewBatch is pebble.DB.NewBatch.
func (d *DB) NewBatch(opts ...pebble.BatchOption) *Batch { return &Batch{d.DB.NewBatch(opts...), d} }

// NewBatchWithSize is pebble.DB.NewBatchWithSize.
func (d *DB) NewBatchWithSize(size int, opts ...pebble.BatchOption) *Batch {
	return &Batch{d.DB.NewBatchWithSize(size, opts...), d}
}

// NewIndexedBatch is pebble.DB.NewIndexedBatch.
func (d *DB) NewIndexedBatch() *Batch { return &Batch{d.DB.NewIndexedBatch(), d} }

// NewIndexedBatchWithSize is pebble.DB.NewIndexedBatchWithSize.
func (d *DB) NewIndexedBatchWithSize(size int) *Batch {
	return &Batch{d.DB.NewIndexedBatchWithSize(size), d}
}

// Apply is pebble.DB.Apply.
func (d *DB) Apply(b *Batch, o *pebble.WriteOptions) error { return d.commit(b.Batch, o, d.DB.Apply) }

// ApplyNoSyncWait is pebble.DB.ApplyNoSyncWait.
func (d *DB) ApplyNoSyncWait(b *Batch, o *pebble.WriteOptions) error {
	return d.commit(b.Batch, o, d.DB.ApplyNoSyncWait)
}

// Commit is pebble.Batch.Commit.
func (b *Batch) Commit(o *pebble.WriteOptions) error { return b.db.Apply(b, o) }

// Apply is pebble.Batch.Apply.
func (b *Batch) Apply(other *Batch, o *pebble.WriteOptions) error {
	return b.Batch.Apply(other.Batch, o)
}

// SetRepr is pebble.Batch.SetRepr. The batch gets a copy of the data, since a commit may add entries to
// it.
func (b *Batch) SetRepr(data []byte) error { return b.Batch.SetRepr(bytes.Clone(data)) }

// Get is pebble.Batch.Get. Get asks the filter only if the batch is empty, since the filter does not
// know the keys of the batch.
func (b *Batch) Get(key []byte) ([]byte, io.Closer, error) {
	if b.Batch.Indexed() && b.Batch.Empty() {
		return b.db.Get(key)
	}
	return b.Batch.Get(key)
}

// Has reports whether a key is there; see [DB.Has] and [Batch.Get].
func (b *Batch) Has(key []byte) (bool, error) { return has(b.Get(key)) }

// NewIter is pebble.Batch.NewIter, without the reserved keys.
func (b *Batch) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return b.Batch.NewIter(b.db.store.hide(o))
}

// NewIterWithContext is pebble.Batch.NewIterWithContext, without the reserved keys.
func (b *Batch) NewIterWithContext(ctx context.Context, o *pebble.IterOptions) (*pebble.Iterator, error) {
	return b.Batch.NewIterWithContext(ctx, b.db.store.hide(o))
}

// NewIter is pebble.DB.NewIter, without the reserved keys.
func (d *DB) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return d.DB.NewIter(d.store.hide(o))
}

// NewIterWithContext is pebble.DB.NewIterWithContext, without the reserved keys.
func (d *DB) NewIterWithContext(ctx context.Context, o *pebble.IterOptions) (*pebble.Iterator, error) {
	return d.DB.NewIterWithContext(ctx, d.store.hide(o))
}

// hide returns options of an iterator that skips the entries, whatever bounds it is given later.
func (s *store) hide(o *pebble.IterOptions) *pebble.IterOptions {
	var n pebble.IterOptions
	if o != nil {
		n = *o
	}
	skip := n.SkipPoint
	n.SkipPoint = func(key []byte) bool { return s.reserved(key) || skip != nil && skip(key) }
	return &n
}

// A Snapshot is a pebble.Snapshot of a DB.
type Snapshot struct {
	*pebble.Snapshot
	db   *DB
	view guard.View
}

// NewSnapshot is pebble.DB.NewSnapshot.
func (d *DB) NewSnapshot() *Snapshot {
	view := d.guard.View()
	return &Snapshot{d.DB.NewSnapshot(), d, view}
}

// getIn is Get of a snapshot that began at the view v.
func (d *DB) getIn(v guard.View, s pebble.Reader, key []byte) ([]byte, io.Closer, error) {
	if d.guard.AbsentIn(v, key) {
		return nil, nil, pebble.ErrNotFound
	}
	value, c, err := s.Get(key)
	if err == nil || err == pebble.ErrNotFound {
		d.guard.FoundIn(v, key, err == nil)
	}
	return value, c, err
}

// Get is pebble.Snapshot.Get.
func (s *Snapshot) Get(key []byte) ([]byte, io.Closer, error) {
	return s.db.getIn(s.view, s.Snapshot, key)
}

// Has reports whether a key is there; see [DB.Has].
func (s *Snapshot) Has(key []byte) (bool, error) { return has(s.Get(key)) }

// NewIter is pebble.Snapshot.NewIter, without the reserved keys.
func (s *Snapshot) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return s.Snapshot.NewIter(s.db.store.hide(o))
}

// NewIterWithContext is pebble.Snapshot.NewIterWithContext, without the reserved keys.
func (s *Snapshot) NewIterWithContext(ctx context.Context, o *pebble.IterOptions) (*pebble.Iterator, error) {
	return s.Snapshot.NewIterWithContext(ctx, s.db.store.hide(o))
}

// An EventuallyFileOnlySnapshot is a pebble.EventuallyFileOnlySnapshot of a DB.
type EventuallyFileOnlySnapshot struct {
	*pebble.EventuallyFileOnlySnapshot
	db   *DB
	view guard.View
}

// NewEventuallyFileOnlySnapshot is pebble.DB.NewEventuallyFileOnlySnapshot.
func (d *DB) NewEventuallyFileOnlySnapshot(ranges []pebble.KeyRange) *EventuallyFileOnlySnapshot {
	view := d.guard.View()
	return &EventuallyFileOnlySnapshot{d.DB.NewEventuallyFileOnlySnapshot(ranges), d, view}
}

// Get is pebble.EventuallyFileOnlySnapshot.Get.
func (s *EventuallyFileOnlySnapshot) Get(key []byte) ([]byte, io.Closer, error) {
	return s.db.getIn(s.view, s.EventuallyFileOnlySnapshot, key)
}

// Has reports whether a key is there; see [DB.Has].
func (s *EventuallyFileOnlySnapshot) Has(key []byte) (bool, error) { return has(s.Get(key)) }

// NewIter is pebble.EventuallyFileOnlySnapshot.NewIter, without the reserved keys.
func (s *EventuallyFileOnlySnapshot) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return s.EventuallyFileOnlySnapshot.NewIter(s.db.store.hide(o))
}

// NewIterWithContext is pebble.EventuallyFileOnlySnapshot.NewIterWithContext, without the reserved keys.
func (s *EventuallyFileOnlySnapshot) NewIterWithContext(ctx context.Context, o *pebble.IterOptions) (*pebble.Iterator, error) {
	return s.EventuallyFileOnlySnapshot.NewIterWithContext(ctx, s.db.store.hide(o))
}
