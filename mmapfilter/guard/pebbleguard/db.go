package pebbleguard

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// FilterName is the name of the filter in the directory of the store, unless guard.Options.Path says
// otherwise.
const FilterName = "keys.mmf"

var (
	// ErrReserved is returned for operations on keys with the prefix of the guard's own.
	ErrReserved = errors.New("pebbleguard: the key is reserved, see guard.Options.Prefix")
	// ErrNotFollowed is returned for operations whose keys a guard cannot know.
	ErrNotFollowed = errors.New("pebbleguard: a guard cannot follow this operation")
)

// A DB is a pebble.DB behind a filter. Methods that are not listed here are those of the pebble.DB;
// none of them writes keys.
type DB struct {
	*pebble.DB
	guard   *guard.Guard
	store   *store
	options *pebble.Options
}

// Open opens the store in a directory, as pebble.Open does, and the filter of its keys. A nil o or g
// has the defaults; deletes are guard.Rebuild by default.
func Open(dir string, o *pebble.Options, g *guard.Options) (*DB, error) {
	if o == nil {
		o = &pebble.Options{}
	}
	g = g.WithDefaults(filepath.Join(dir, FilterName), guard.Rebuild)
	db, err := pebble.Open(dir, o)
	if err != nil {
		return nil, err
	}
	d := &DB{DB: db, store: newStore(db, g.Prefix, o.DisableWAL), options: o}
	open := guard.Open
	if o.ReadOnly {
		open = guard.OpenReadOnly
	}
	if d.guard, err = open(d.store, g); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return d, nil
}

// Close closes the filter and the store.
func (d *DB) Close() error { return errors.Join(d.guard.Close(), d.DB.Close()) }

// GuardStats returns the statistics of the guard.
func (d *DB) GuardStats() guard.Stats { return d.guard.Stats() }

// Guard returns the guard.
func (d *DB) Guard() *guard.Guard { return d.guard }

// Get is pebble.DB.Get. It does not ask the store if the filter knows that the key is not there.
func (d *DB) Get(key []byte) ([]byte, io.Closer, error) {
	if d.guard.Absent(key) {
		return nil, nil, pebble.ErrNotFound
	}
	value, c, err := d.DB.Get(key)
	d.found(key, err)
	return value, c, err
}

func (d *DB) found(key []byte, err error) {
	if err == nil || err == pebble.ErrNotFound {
		d.guard.Found(key, err == nil)
	}
}

// Has reports whether a key is there.
func (d *DB) Has(key []byte) (bool, error) {
	_, c, err := d.Get(key)
	if err == pebble.ErrNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.Close()
}

// apply does one operation in a batch of its own.
func (d *DB) apply(o *pebble.WriteOptions, add func(b *pebble.Batch) error) error {
	b := d.NewBatch()
	defer b.Close()
	if err := add(b.Batch); err != nil {
		return err
	}
	return d.Apply(b, o)
}

// Set is pebble.DB.Set.
func (d *DB) Set(key, value []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.Set(key, value, nil) })
}

// Merge is pebble.DB.Merge. The key is there from then on.
func (d *DB) Merge(key, value []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.Merge(key, value, nil) })
}

// Delete is pebble.DB.Delete.
func (d *DB) Delete(key []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.Delete(key, nil) })
}

// DeleteSized is pebble.DB.DeleteSized.
func (d *DB) DeleteSized(key []byte, valueSize uint32, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.DeleteSized(key, valueSize, nil) })
}

// SingleDelete is pebble.DB.SingleDelete. Its key stays in the filter until that is rebuilt: what it
// uncovers, if the key was set more than once, is not defined.
func (d *DB) SingleDelete(key []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.SingleDelete(key, nil) })
}

// DeleteRange is pebble.DB.DeleteRange. Its keys stay in the filter until that is rebuilt. A range
// with reserved keys is refused.
func (d *DB) DeleteRange(start, end []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.DeleteRange(start, end, nil) })
}

// Apply is pebble.DB.Apply.
func (d *DB) Apply(b *Batch, o *pebble.WriteOptions) error { return d.commit(b, o, d.DB.Apply) }

// ApplyNoSyncWait is pebble.DB.ApplyNoSyncWait.
func (d *DB) ApplyNoSyncWait(b *Batch, o *pebble.WriteOptions) error {
	return d.commit(b, o, d.DB.ApplyNoSyncWait)
}

func (d *DB) commit(b *Batch, o *pebble.WriteOptions, commit func(*pebble.Batch, *pebble.WriteOptions) error) error {
	t := d.guard.Begin()
	if err := d.follow(b.Batch, t); err != nil {
		return err
	}
	outcome := guard.Unknown // an error does not say that nothing has happened
	defer func() { t.Done(outcome) }()
	if err := d.store.add(b.Batch, t.Prepare()); err != nil {
		outcome = guard.Aborted
		return err
	}
	err := commit(b.Batch, o)
	if err == nil {
		outcome = guard.Committed
	}
	return err
}

// follow tells a transaction what a batch does.
func (d *DB) follow(b *pebble.Batch, t *guard.Tx) error {
	for r := b.Reader(); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		switch kind {
		case pebble.InternalKeyKindLogData, pebble.InternalKeyKindRangeKeySet, pebble.InternalKeyKindRangeKeyUnset, pebble.InternalKeyKindRangeKeyDelete:
			continue
		case pebble.InternalKeyKindRangeDelete:
			if d.store.overlaps(key, value) {
				return ErrReserved
			}
			t.DeleteUnknown()
			continue
		}
		if d.store.reserved(key) {
			return ErrReserved
		}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete, pebble.InternalKeyKindMerge:
			t.Put(key)
		case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized:
			t.Delete(key)
		case pebble.InternalKeyKindSingleDelete:
			t.DeleteUnknown()
		default:
			return ErrNotFollowed
		}
	}
}

// Ingest is pebble.DB.Ingest. It reads the keys of the files first.
func (d *DB) Ingest(ctx context.Context, paths []string) error {
	_, err := d.IngestWithStats(ctx, paths)
	return err
}

// IngestWithStats is pebble.DB.IngestWithStats. It reads the keys of the files first.
func (d *DB) IngestWithStats(ctx context.Context, paths []string) (stats pebble.IngestOperationStats, err error) {
	err = d.ingest(paths, func() (err error) { stats, err = d.DB.IngestWithStats(ctx, paths); return err })
	return stats, err
}

// IngestAndExcise is pebble.DB.IngestAndExcise. It reads the keys of the files first, and refuses
// shared and external files.
func (d *DB) IngestAndExcise(ctx context.Context, paths []string, shared []pebble.SharedSSTMeta, external []pebble.ExternalFile, span pebble.KeyRange) (stats pebble.IngestOperationStats, err error) {
	if len(shared) > 0 || len(external) > 0 {
		return stats, ErrNotFollowed
	}
	if d.store.overlaps(span.Start, span.End) {
		return stats, ErrReserved
	}
	d.guard.Begin().DeleteUnknown()
	err = d.ingest(paths, func() (err error) {
		stats, err = d.DB.IngestAndExcise(ctx, paths, nil, nil, span)
		return err
	})
	return stats, err
}

// IngestExternalFiles is refused: their keys would have to be read from afar.
func (d *DB) IngestExternalFiles(context.Context, []pebble.ExternalFile) (pebble.IngestOperationStats, error) {
	return pebble.IngestOperationStats{}, ErrNotFollowed
}

// Excise is pebble.DB.Excise. Its keys stay in the filter until that is rebuilt. A range with reserved
// keys is refused.
func (d *DB) Excise(ctx context.Context, span pebble.KeyRange) error {
	if d.store.overlaps(span.Start, span.End) {
		return ErrReserved
	}
	d.guard.Begin().DeleteUnknown()
	return d.DB.Excise(ctx, span)
}

// ingestAtOnce is how many keys of an ingested file are put into the outbox in one transaction.
const ingestAtOnce = 1 << 16

// ingest calls do once the keys of files are in the filter, and durably in the outbox.
func (d *DB) ingest(paths []string, do func() error) error {
	var open []*guard.Tx
	defer func() {
		for _, t := range open {
			t.Done(guard.Unknown) // it puts keys only: the outcome does not matter
		}
	}()
	t, n := d.guard.Begin(), 0
	put := func() error {
		c := t.Prepare()
		open = append(open, t)
		t, n = d.guard.Begin(), 0
		return d.store.Write(c)
	}
	for _, path := range paths {
		err := d.keysOf(path, func(key []byte) error {
			if d.store.reserved(key) {
				return ErrReserved
			}
			t.Put(key)
			if n++; n < ingestAtOnce {
				return nil
			}
			return put()
		})
		if err != nil {
			return err
		}
	}
	if err := put(); err != nil {
		return err
	}
	return do()
}

// keysOf calls do for the keys of a file to ingest.
func (d *DB) keysOf(path string, do func(key []byte) error) error {
	f, err := d.options.FS.Open(path)
	if err != nil {
		return err
	}
	it, err := pebble.NewExternalIter(d.options, &pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly}, [][]sstable.ReadableFile{{f}})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = do(it.Key())
	}
	return errors.Join(err, it.Error(), it.Close())
}
