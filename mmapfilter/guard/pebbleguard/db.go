package pebbleguard

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// FilterName is the name of the filter in the directory of the store, unless guard.Options.Path names
// another path.
const FilterName = "keys.mmf"

var (
	// ErrReserved is returned for operations on keys with the prefix of the guard's
	// entries.
	ErrReserved = errors.New("pebbleguard: the key is reserved, see guard.Options.Prefix")
	// ErrNotFollowed is returned for operations whose keys a guard cannot know.
	ErrNotFollowed = errors.New("pebbleguard: a guard cannot follow this operation")

	errNoLog = errors.New("pebbleguard: the store has no write-ahead log to sync")
)

// A DB is a pebble.DB behind a filter. Methods that are not listed here are those of the pebble.DB;
// none of them writes keys.
type DB struct {
	*pebble.DB
	guard   *guard.Guard
	store   *loggedStore
	options *pebble.Options // with their defaults
	turns   turns
}

// Open opens the store in a directory, as pebble.Open does, and the filter of its keys. A nil o or g
// means the defaults; the default of guard.Options.Deletes is guard.Rebuild. A store with a
// comparer other than Pebble's default is refused, since a filter tells keys apart by their bytes.
func Open(dir string, o *pebble.Options, g *guard.Options) (*DB, error) {
	if o == nil {
		o = &pebble.Options{}
	}
	if o.Comparer != nil && o.Comparer.Name != pebble.DefaultComparer.Name {
		return nil, fmt.Errorf("%w: keys in the order of %s", ErrNotFollowed, o.Comparer.Name)
	}
	g = g.WithDefaults(filepath.Join(dir, FilterName), guard.Rebuild)
	s := newLoggedStore(dir, o, g.Prefix)
	if err := s.narrow(g); err != nil {
		return nil, err
	}
	if g.Deletes == guard.Rebuild {
		if err := s.readLog(); err != nil {
			return nil, err
		}
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	open := guard.Open
	if o.ReadOnly {
		open = guard.OpenReadOnly
	}
	kept, err := open(s, g)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.log = nil
	s.guard.Store(kept)
	d := &DB{DB: s.db, guard: kept, store: s, options: s.options, turns: turns{on: g.Deletes == guard.Exact}}
	d.options.EnsureDefaults()
	return d, nil
}

// Close closes the filter and the store.
func (d *DB) Close() error { return errors.Join(d.guard.Close(), d.store.close()) }

// GuardStats returns the statistics of the guard.
func (d *DB) GuardStats() guard.Stats { return d.guard.Stats() }

// Guard returns the guard.
func (d *DB) Guard() *guard.Guard { return d.guard }

// Get is pebble.DB.Get. It does not ask the store if the filter knows that the key is absent.
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

// AbsentBatch is guard.Guard.AbsentBatch. Get would not ask the store for the keys that it reports as
// absent.
func (d *DB) AbsentBatch(keys [][]byte, absent []bool) { d.guard.AbsentBatch(keys, absent) }

// Has reports whether the store has a key. It is no cheaper than Get: Pebble stores the value beside
// the key, and only a merge shows whether a merged key exists.
func (d *DB) Has(key []byte) (bool, error) { return has(d.Get(key)) }

// has reports whether a Get has found its key.
func has(_ []byte, c io.Closer, err error) (bool, error) {
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
	b := d.DB.NewBatch()
	defer b.Close()
	if err := add(b); err != nil {
		return err
	}
	return d.commit(b, o, d.DB.Apply)
}

// Set is pebble.DB.Set.
func (d *DB) Set(key, value []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.Set(key, value, nil) })
}

// Merge is pebble.DB.Merge. For the guard, it puts the key.
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

// SingleDelete is pebble.DB.SingleDelete. The key stays in the filter until it is rebuilt: if the key
// was set more than once, an older value may become visible.
func (d *DB) SingleDelete(key []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.SingleDelete(key, nil) })
}

// DeleteRange is pebble.DB.DeleteRange. The keys of the range stay in the filter until it is rebuilt. A
// range with reserved keys is refused.
func (d *DB) DeleteRange(start, end []byte, o *pebble.WriteOptions) error {
	return d.apply(o, func(b *pebble.Batch) error { return b.DeleteRange(start, end, nil) })
}

func (d *DB) commit(b *pebble.Batch, o *pebble.WriteOptions, commit func(*pebble.Batch, *pebble.WriteOptions) error) error {
	// First refuse what the store would refuse: otherwise the entries of the guard would stay in the
	// batch.
	if d.options.ReadOnly {
		return pebble.ErrReadOnly
	}
	if d.options.DisableWAL && o.GetSync() {
		return errNoLog
	}
	t := d.guard.Begin()
	unknown, err := d.follow(b, t)
	if err != nil {
		return err
	}
	defer d.turns.take(unknown)()
	outcome := guard.Unknown // even after an error, the batch may have been committed
	defer func() { t.Done(outcome) }()
	if err := d.prepare(b, t); err != nil {
		outcome = guard.Aborted
		return err
	}
	if err := commit(b, o); err != nil {
		return err
	}
	outcome = guard.Committed
	return nil
}

// prepare prepares a transaction for the commit of its batch. With guard.Rebuild, it puts the entry of
// the epoch into the log before the keys of the transaction.
func (d *DB) prepare(b *pebble.Batch, t *guard.Tx) error {
	if err := d.store.add(b, t.Prepare()); err != nil || d.turns.on {
		return err
	}
	return d.store.enter()
}

// Turns keep operations that delete unknown keys apart from all other operations. With guard.Exact, a
// transaction that overwrites a key relies on the key being there until the transaction is committed,
// so that a rebuild finds it. With guard.Rebuild, it does not rely on the key.
type turns struct {
	on bool
	mu sync.RWMutex
}

// take takes a turn, and returns a function that ends it.
func (t *turns) take(alone bool) (end func()) {
	switch {
	case !t.on:
		return func() {}
	case alone:
		t.mu.Lock()
		return t.mu.Unlock
	}
	t.mu.RLock()
	return t.mu.RUnlock
}

// follow tells a transaction what a batch does. unknown says that the batch deletes keys that nobody
// knows.
func (d *DB) follow(b *pebble.Batch, t *guard.Tx) (unknown bool, err error) {
	for r := b.Reader(); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil || !ok {
			return unknown, err
		}
		deletes, err := d.operation(t, kind, key, value)
		if err != nil {
			return false, err
		}
		unknown = unknown || deletes
	}
}

// operation tells a transaction of an operation, and reports whether the operation may delete keys that
// nobody knows. A SingleDelete is such an operation: if its key was set more than once, nobody knows
// which value becomes visible.
func (d *DB) operation(t *guard.Tx, kind pebble.InternalKeyKind, key, end []byte) (unknown bool, err error) {
	switch kind {
	case pebble.InternalKeyKindLogData, pebble.InternalKeyKindRangeKeySet, pebble.InternalKeyKindRangeKeyUnset, pebble.InternalKeyKindRangeKeyDelete:
		return false, nil
	case pebble.InternalKeyKindRangeDelete:
		if d.store.overlaps(key, end) {
			return false, ErrReserved
		}
		t.DeleteUnknown()
		return true, nil
	}
	if d.store.reserved(key) {
		return false, ErrReserved
	}
	switch kind {
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete, pebble.InternalKeyKindMerge:
		t.Put(key)
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized:
		t.Delete(key)
	case pebble.InternalKeyKindSingleDelete:
		t.DeleteUnknown()
		return true, nil
	default:
		return false, ErrNotFollowed
	}
	return false, nil
}
