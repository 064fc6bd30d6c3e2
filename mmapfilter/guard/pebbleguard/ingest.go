package pebbleguard

import (
	"context"
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Ingest is pebble.DB.Ingest. It reads the keys of the files first.
func (d *DB) Ingest(ctx context.Context, paths []string) error {
	_, err := d.IngestWithStats(ctx, paths)
	return err
}

// IngestWithStats is pebble.DB.IngestWithStats. It reads the keys of the files first.
func (d *DB) IngestWithStats(ctx context.Context, paths []string) (stats pebble.IngestOperationStats, err error) {
	err = d.ingest(ctx, paths, false, func() (err error) {
		stats, err = d.DB.IngestWithStats(ctx, paths)
		return err
	})
	return stats, err
}

// IngestAndExcise is pebble.DB.IngestAndExcise. It reads the keys of the files first, and refuses
// shared and external files, and a range with reserved keys.
func (d *DB) IngestAndExcise(ctx context.Context, paths []string, shared []pebble.SharedSSTMeta, external []pebble.ExternalFile, span pebble.KeyRange) (stats pebble.IngestOperationStats, err error) {
	if len(shared) > 0 || len(external) > 0 {
		return stats, ErrNotFollowed
	}
	if d.store.overlaps(span.Start, span.End) {
		return stats, ErrReserved
	}
	err = d.ingest(ctx, paths, true, func() (err error) {
		stats, err = d.DB.IngestAndExcise(ctx, paths, nil, nil, span)
		return err
	})
	return stats, err
}

// IngestExternalFiles is refused, since the keys would have to be read from remote files.
func (d *DB) IngestExternalFiles(context.Context, []pebble.ExternalFile) (pebble.IngestOperationStats, error) {
	return pebble.IngestOperationStats{}, ErrNotFollowed
}

// Excise is pebble.DB.Excise. The excised keys stay in the filter until it is rebuilt. A range with
// reserved keys is refused.
func (d *DB) Excise(ctx context.Context, span pebble.KeyRange) error {
	if d.store.overlaps(span.Start, span.End) {
		return ErrReserved
	}
	return d.ingest(ctx, nil, true, func() error { return d.DB.Excise(ctx, span) })
}

// ingestAtOnce is how many keys of ingested files are put into the outbox in one transaction.
const ingestAtOnce = 1 << 16

// ingest calls do once the keys of the files are in the filter, and are durable there or in the outbox.
// If excise is true, do also deletes keys that the guard is not told of; so may tombstones in the files.
// A reader may for an instant see the range excised and the files not yet ingested.
func (d *DB) ingest(ctx context.Context, paths []string, excise bool, do func() error) error {
	if d.options.ReadOnly {
		return pebble.ErrReadOnly
	}
	defer d.turns.take(true)()
	var open []*guard.Tx
	outcome := guard.Unknown
	defer func() {
		for _, t := range open {
			t.Done(outcome)
		}
	}()
	begin := func() *guard.Tx {
		t := d.guard.Begin()
		if excise {
			t.DeleteUnknown()
		}
		return t
	}
	atOnce := ingestAtOnce
	if d.turns.on {
		atOnce = math.MaxInt // a second transaction would wait for keys that the first has locked
	}
	t, n := begin(), 0
	put := func() error {
		c := t.Prepare()
		open = append(open, t)
		t, n = begin(), 0
		if len(c.Set)+len(c.Remove) == 0 {
			return nil
		}
		return d.store.Write(c)
	}
	for _, path := range paths {
		err := d.operationsOf(ctx, path, func(kind pebble.InternalKeyKind, key, end []byte) error {
			switch kind {
			case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized: // a tombstone is a delete of an unknown key
				kind = pebble.InternalKeyKindSingleDelete
			}
			unknown, err := d.operation(t, kind, key, end)
			if err != nil || unknown {
				return err
			}
			if n++; n < atOnce {
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
	if len(paths) > 0 && !d.turns.on {
		if err := d.store.unlogged(); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	outcome = guard.Committed
	return nil
}

// operationsOf calls do for the operations in a file to ingest: point keys of all kinds, and range
// deletes.
func (d *DB) operationsOf(ctx context.Context, path string, do func(kind pebble.InternalKeyKind, key, end []byte) error) (err error) {
	f, err := d.options.FS.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, d.options.MakeReaderOptions())
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	points, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	for kv := points.First(); kv != nil && err == nil; kv = points.Next() {
		err = do(kv.Kind(), kv.K.UserKey, nil)
	}
	if err := errors.Join(err, points.Error(), points.Close()); err != nil {
		return err
	}
	ranges, err := r.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || ranges == nil {
		return err
	}
	defer ranges.Close()
	for s, err := ranges.First(); s != nil || err != nil; s, err = ranges.Next() {
		if err == nil {
			err = do(pebble.InternalKeyKindRangeDelete, s.Start, s.End)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
