package bboltguard

import (
	"hash/maphash"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A DB, its transactions and their buckets refer to one another, as in bbolt. So their types
// are together in this file, and the methods of each type in a file of their own.

// A DB is a bbolt.DB behind a filter. Methods that are not listed here are those of the bbolt.DB; none
// of them writes keys. Use the bbolt.DB itself only for reading.
type DB struct {
	*bbolt.DB
	guard *guard.Guard
	store *store
	exact bool         // Options.Deletes is guard.Exact
	seed  maphash.Seed // for the hashes in Tx.touched

	batches struct {
		sync.Mutex
		batch *batch
	}
}

type engineTx = bbolt.Tx

// A Tx is a bbolt.Tx of a DB. Methods that are not listed here are those of the bbolt.Tx; none of them
// writes keys.
type Tx struct {
	*engineTx
	db       *DB
	root     *Bucket
	managed  bool
	handlers []func() // of OnCommit

	// In a read transaction: the instant before it began.
	view guard.View
	late uint64

	// In a writable transaction.
	guarded *guard.Tx
	touched map[uint64]struct{} // hashes of the keys that it has put
	buckets map[string]*Bucket  // by path; bbolt, too, has one bbolt.Bucket for each
	unknown bool                // it has deleted more keys than it remembers
	broken  error               // why it cannot be committed
}

type engineBucket = bbolt.Bucket

// A Bucket is a bbolt.Bucket of a DB. Methods that are not listed here are those of the bbolt.Bucket;
// none of them writes keys.
type Bucket struct {
	*engineBucket
	tx    *Tx
	path  []byte // see JoinKey; empty is the root
	stale bool   // its bucket was deleted or moved in this transaction
}

// A batch has the calls of Batch that share a transaction.
type batch struct {
	db    *DB
	timer *time.Timer
	once  sync.Once
	calls []call
}

type call struct {
	fn   func(*Tx) error
	done chan<- error
}
