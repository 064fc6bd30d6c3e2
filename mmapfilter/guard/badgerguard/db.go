package badgerguard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// FilterName is the name of the filter in Options.Dir, unless guard.Options.Path names another path.
const FilterName = "keys.mmf"

var (
	// ErrReserved is returned for writes to keys with the prefix of the guard's entries.
	ErrReserved = errors.New("badgerguard: the key is reserved, see guard.Options.Prefix")
	// ErrNotFollowed is returned for operations whose keys a guard cannot know.
	ErrNotFollowed = errors.New("badgerguard: a guard cannot follow this operation")
)

// A DB is a badger.DB behind a filter. Methods that are not listed here come from the badger.DB;
// none of them writes keys.
type DB struct {
	*badger.DB
	guard      *guard.Guard
	store      *store
	options    badger.Options
	namespaces sync.Map // banned namespaces, uint64 -> struct{}

	// RunValueLogGC and drops lock values, so that they exclude each other. A GC reads values and
	// writes them again later. After a drop in between, it would bring back keys that were dropped, or
	// whose delete the drop has purged, and the filter would lack these keys.
	values sync.Mutex

	// With guard.Exact, a transaction that overwrites a key relies on the key being there until the
	// commit has ended, so that a rebuild finds it. So commits lock commits for reading, and drops lock
	// it.
	commits sync.RWMutex
}

// Open opens a store, as badger.Open does, and the filter of its keys. A nil g means the defaults; the
// default of guard.Options.Deletes is guard.Rebuild. Stores in memory and in managed mode are refused.
func Open(o badger.Options, g *guard.Options) (*DB, error) {
	if o.InMemory {
		return nil, fmt.Errorf("%w: a store in memory", ErrNotFollowed)
	}
	g = g.WithDefaults(filepath.Join(o.Dir, FilterName), guard.Rebuild)
	if o.NamespaceOffset >= 0 && len(g.Prefix) < o.NamespaceOffset+namespaceBytes {
		return nil, fmt.Errorf("%w: the reserved prefix must cover the namespace: NamespaceOffset + %d bytes", ErrReserved, namespaceBytes)
	}
	db, err := badger.Open(o)
	if err != nil {
		return nil, err
	}
	d := &DB{DB: db, options: db.Opts()}
	if err := d.open(g); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return d, nil
}

const namespaceBytes = 8

func (d *DB) open(g *guard.Options) (err error) {
	if isManaged(d.DB) {
		return fmt.Errorf("%w: managed mode", ErrNotFollowed)
	}
	for _, namespace := range d.DB.BannedNamespaces() {
		d.namespaces.Store(namespace, struct{}{})
	}
	if d.banned(append(bytes.Clone(g.Prefix), 0)) || d.banned(owner) {
		return fmt.Errorf("%w: its namespace is banned", ErrReserved)
	}
	for _, dir := range []string{d.options.Dir, d.options.ValueDir} {
		if err := each(dir, "", func(path string) error {
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() && !strings.HasPrefix(path, g.Path) {
				g.Narrow(info.Mode())
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // removed by a compaction
			}
			return err
		}); err != nil {
			return err
		}
	}
	if d.store, err = newStore(d.DB, g.Prefix); err != nil {
		return err
	}
	d.store.exact = g.Deletes == guard.Exact
	open := guard.Open
	if d.options.ReadOnly {
		open = guard.OpenReadOnly
	}
	d.guard, err = open(d.store, g)
	return err
}

// isManaged reports whether a store is in managed mode. Badger shows this only by a panic.
func isManaged(db *badger.DB) (managed bool) {
	defer func() { managed = recover() == nil }()
	db.NewTransactionAt(0, false).Discard()
	return true
}

// OpenManaged is refused: in managed mode the program chooses the versions.
func OpenManaged(badger.Options, *guard.Options) (*DB, error) {
	return nil, fmt.Errorf("%w: managed mode", ErrNotFollowed)
}

// Close closes the filter and the store. Transactions must have ended.
func (d *DB) Close() error {
	return errors.Join(d.guard.Close(), d.DB.Close())
}

// GuardStats returns the statistics of the guard.
func (d *DB) GuardStats() guard.Stats { return d.guard.Stats() }

// Guard returns the guard.
func (d *DB) Guard() *guard.Guard { return d.guard }

// AbsentBatch is guard.Guard.AbsentBatch. A new transaction would not ask the store for the keys that
// it reports as absent. For keys in banned namespaces it reports false.
func (d *DB) AbsentBatch(keys [][]byte, absent []bool) {
	d.guard.AbsentBatch(keys, absent)
	for i, key := range keys {
		absent[i] = absent[i] && !d.banned(key)
	}
}

// Has reports whether the store has a key. It begins a transaction only if the filter says "maybe",
// since a transaction costs more than a lookup in the filter.
func (d *DB) Has(key []byte) (there bool, err error) {
	filtered := d.filters(key)
	if d.store.reserved(key) || filtered && d.guard.Absent(key) {
		return false, nil
	}
	err = d.DB.View(func(txn *badger.Txn) error {
		_, err := txn.Get(key)
		return err
	})
	if there, err = found(err); filtered && err == nil {
		d.guard.Found(key, there)
	}
	return there, err
}

// filters reports whether the filter may answer for a key.
func (d *DB) filters(key []byte) bool {
	return len(key) > 0 && !d.banned(key)
}

// found reports whether a Get that returned err has found its key.
func found(err error) (bool, error) {
	if err == badger.ErrKeyNotFound {
		return false, nil
	}
	return err == nil, err
}

// DropAll is badger.DB.DropAll. It then rebuilds the filter; every answer is "maybe" until the rebuild
// ends. If the program has called guard.Guard.Doubt, DropAll leaves the rebuild to the program.
func (d *DB) DropAll() error { return d.drop(d.DB.DropAll) }

// DropPrefix is badger.DB.DropPrefix. It then rebuilds the filter, since Badger may bring back deleted
// keys, even keys without the prefix. Until the rebuild ends, answers are as with DropAll. A prefix of
// reserved keys is refused.
func (d *DB) DropPrefix(prefixes ...[]byte) error {
	for _, p := range prefixes {
		if d.store.reserved(p) || bytes.HasPrefix(d.store.prefix, p) {
			return ErrReserved
		}
	}
	if len(prefixes) == 0 {
		return nil
	}
	return d.drop(func() error { return d.DB.DropPrefix(prefixes...) })
}

// drop drops keys, and rebuilds the filter. After a crash meanwhile, the next Open rebuilds the filter,
// since the crash may leave the store in a state that it never had: Badger drops the newest memtable
// before older ones.
func (d *DB) drop(do func() error) error {
	if d.options.ReadOnly {
		return badger.ErrReadOnlyTxn
	}
	d.values.Lock() // first, since a GC may take long, and then every answer is "maybe"
	defer d.values.Unlock()
	return d.guard.Bypass(func() error {
		d.commits.Lock() // first, since the commits that it waits for lock drop
		defer d.commits.Unlock()
		d.store.drop.Lock()
		defer d.store.drop.Unlock()
		return do()
	})
}

// RunValueLogGC is badger.DB.RunValueLogGC. A drop waits until it ends. While keys are dropped, until
// the rebuild after the drop has ended, or while another GC runs, RunValueLogGC returns
// badger.ErrRejected.
func (d *DB) RunValueLogGC(discardRatio float64) error {
	if !d.values.TryLock() {
		return badger.ErrRejected
	}
	defer d.values.Unlock()
	return d.DB.RunValueLogGC(discardRatio)
}

// BanNamespace is badger.DB.BanNamespace. The keys of the namespace stay in the filter until it is
// rebuilt. The namespace of the reserved keys is refused.
func (d *DB) BanNamespace(namespace uint64) error {
	if offset := d.options.NamespaceOffset; offset >= 0 {
		for _, reserved := range [][]byte{d.store.key([]byte{0}), owner} {
			if len(reserved) > offset+namespaceBytes && binary.BigEndian.Uint64(reserved[offset:]) == namespace {
				return ErrReserved
			}
		}
	}
	if err := d.DB.BanNamespace(namespace); err != nil {
		return err
	}
	d.namespaces.Store(namespace, struct{}{})
	d.guard.Begin().DeleteUnknown()
	return nil
}

// banned reports whether a key is in a banned namespace.
func (d *DB) banned(key []byte) bool {
	offset := d.options.NamespaceOffset
	if offset < 0 || len(key) <= offset+8 {
		return false
	}
	_, banned := d.namespaces.Load(binary.BigEndian.Uint64(key[offset:]))
	return banned
}

// NewStream is badger.DB.NewStream. Its ChooseKey leaves out the reserved keys.
func (d *DB) NewStream() *badger.Stream {
	s := d.DB.NewStream()
	s.ChooseKey = func(item *badger.Item) bool { return !d.store.reserved(item.Key()) }
	return s
}

// Backup is badger.DB.Backup, without the reserved keys, since a restored store does not match the
// filter.
func (d *DB) Backup(w io.Writer, since uint64) (uint64, error) {
	s := d.NewStream()
	s.LogPrefix = "DB.Backup"
	s.SinceTs = since
	return s.Backup(w, since)
}

// Subscribe is badger.DB.Subscribe, without the reserved keys.
func (d *DB) Subscribe(ctx context.Context, callback func(kv *badger.KVList) error, matches []pb.Match) error {
	if callback == nil {
		return badger.ErrNilCallback
	}
	return d.DB.Subscribe(ctx, func(list *badger.KVList) error {
		kept := list.Kv[:0]
		for _, kv := range list.Kv {
			if !d.store.reserved(kv.Key) {
				kept = append(kept, kv)
			}
		}
		if list.Kv = kept; len(kept) == 0 {
			return nil
		}
		return callback(list)
	}, matches)
}

// Load is refused: restore a backup into a store without a guard, and remove its filter.
func (d *DB) Load(io.Reader, int) error { return ErrNotFollowed }

// NewKVLoader is refused, as Load is.
func (d *DB) NewKVLoader(int) (*badger.KVLoader, error) { return nil, ErrNotFollowed }

// NewStreamWriter is refused: it replaces all keys.
func (d *DB) NewStreamWriter() (*badger.StreamWriter, error) { return nil, ErrNotFollowed }

// NewStreamAt is refused: it is for managed mode.
func (d *DB) NewStreamAt(uint64) (*badger.Stream, error) { return nil, ErrNotFollowed }

// StreamDB is refused: it is for managed mode.
func (d *DB) StreamDB(badger.Options) error { return ErrNotFollowed }

// SetDiscardTs is refused: it is for managed mode.
func (d *DB) SetDiscardTs(uint64) error { return ErrNotFollowed }
