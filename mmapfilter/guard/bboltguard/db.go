package bboltguard

import (
	"errors"
	"hash/maphash"
	"os"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// FilterSuffix is what the path of the filter adds to the path of the store, unless guard.Options.Path
// names another path.
const FilterSuffix = ".mmf"

var (
	// ErrReserved is returned for writes to the reserved buckets of the guard.
	ErrReserved = errors.New("bboltguard: the name is reserved, see guard.Options.Prefix")
	// ErrNotFollowed is returned for operations whose keys a guard cannot know.
	ErrNotFollowed = errors.New("bboltguard: a guard cannot follow this operation")
)

// Open opens the store in a file, as bbolt.Open does, and the filter of its keys. A nil o or g means
// the defaults; the default of guard.Options.Deletes is guard.Exact.
func Open(path string, mode os.FileMode, o *bbolt.Options, g *guard.Options) (*DB, error) {
	g = g.WithDefaults(path+FilterSuffix, guard.Exact)
	db, err := bbolt.Open(path, mode, o)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(db.Path())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	g.Narrow(info.Mode())
	d := &DB{DB: db, store: &store{db: db, name: g.Prefix}, exact: g.Deletes == guard.Exact, seed: maphash.MakeSeed()}
	if o != nil {
		d.store.mapped = int64(o.InitialMmapSize)
	}
	open := guard.Open
	if db.IsReadOnly() {
		open = guard.OpenReadOnly
	}
	if d.guard, err = open(d.store, g); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return d, nil
}

// Close closes the filter and the store. It waits for transactions.
func (d *DB) Close() error { return errors.Join(d.guard.Close(), d.DB.Close()) }

// GuardStats returns the statistics of the guard.
func (d *DB) GuardStats() guard.Stats { return d.guard.Stats() }

// Guard returns the guard. Its methods Rebuild, Work, Doubt, Bypass and Close wait for transactions, so
// do not call them within one.
func (d *DB) Guard() *guard.Guard { return d.guard }

// AbsentBatch is guard.Guard.AbsentBatch, for keys that [JoinKey] has returned.
func (d *DB) AbsentBatch(keys [][]byte, absent []bool) { d.guard.AbsentBatch(keys, absent) }

// Compact is bbolt.Compact. The copy has the entries of the guard, too.
func Compact(dst *bbolt.DB, src *DB, txMaxSize int64) error {
	return bbolt.Compact(dst, src.DB, txMaxSize)
}
