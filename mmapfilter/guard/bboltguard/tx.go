package bboltguard

import (
	"hash/maphash"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

type engineTx = bbolt.Tx

// A Tx is a bbolt.Tx of a DB. Methods that are not listed here are those of the bbolt.Tx; none of them
// writes keys.
type Tx struct {
	*engineTx
	db       *DB
	root     *Bucket
	managed  bool
	handlers []func() // of OnCommit

	// Of a read transaction: the instant before it began.
	view guard.View
	late uint64

	// Of a writable one.
	guarded *guard.Tx
	touched map[uint64]struct{} // hashes of the keys that it has put
	buckets map[string]*Bucket  // by path: bbolt has one bbolt.Bucket for each, too
	unknown bool                // it has deleted more than it remembers
	broken  error               // why it cannot be committed
}

// manage runs the function of Update and View. It ends the transaction if that fails.
func (t *Tx) manage(fn func(*Tx) error) error {
	t.managed = true
	returned := false
	defer func() {
		if t.managed = false; !returned {
			_ = t.Rollback() // on the way of a panic
		}
	}()
	err := fn(t)
	t.managed, returned = false, true
	if err != nil {
		_ = t.Rollback() // as bbolt.DB.Update: the caller gets the error of the function
	}
	return err
}

// DB is bbolt.Tx.DB.
func (t *Tx) DB() *DB {
	if t.engineTx.DB() == nil {
		return nil
	}
	return t.db
}

// OnCommit is bbolt.Tx.OnCommit.
func (t *Tx) OnCommit(fn func()) { t.handlers = append(t.handlers, fn) }

// Rollback is bbolt.Tx.Rollback. The filter has not heard of the transaction.
func (t *Tx) Rollback() error {
	if t.managed {
		panic("managed tx rollback not allowed")
	}
	return t.engineTx.Rollback()
}

// Commit is bbolt.Tx.Commit. The keys are put into the filter before it, and into the outbox with it.
func (t *Tx) Commit() error {
	if t.managed {
		panic("managed tx commit not allowed")
	}
	if t.engineTx.DB() == nil || !t.Writable() {
		return t.engineTx.Commit() // its error
	}
	if t.broken != nil {
		_ = t.engineTx.Rollback()
		return t.broken
	}
	if err := t.commit(); err != nil {
		return err
	}
	for _, fn := range t.handlers {
		fn()
	}
	return nil
}

func (t *Tx) commit() (err error) {
	s := t.db.store
	if t.unknown {
		t.guarded.DeleteUnknown()
	}
	c := s.prepare(t.guarded)
	returned := false
	defer func() {
		if !returned {
			_ = t.engineTx.Rollback() // on the way of a panic, which leaves it open
		}
		outcome := guard.Committed
		if !returned || err != nil {
			outcome = s.outcome(c.Set)
		}
		t.guarded.Done(outcome)
	}()
	if err = s.add(t.engineTx, c); err != nil {
		_ = t.engineTx.Rollback()
	} else {
		err = s.commit(t.engineTx)
	}
	returned = true
	return err
}

// put records that a key is put.
func (t *Tx) put(joined []byte) {
	t.touched[maphash.Bytes(t.db.seed, joined)] = struct{}{}
	t.guarded.Put(joined)
}

// absent reports whether a key is certainly not in what the transaction sees.
func (t *Tx) absent(joined []byte) bool {
	if !t.Writable() {
		// The filter first: late changes before a filter is in use that lacks what was deleted.
		return t.db.guard.AbsentIn(t.view, joined) && t.late == t.db.store.late.Load()
	}
	// What others have committed stays as it is until this transaction ends.
	return !t.hasPut(joined) && t.db.guard.Absent(joined)
}

// found tells the guard what the store has, if the filter has been asked.
func (t *Tx) found(joined []byte, there bool) {
	switch {
	case !t.Writable():
		t.db.guard.FoundIn(t.view, joined, there)
	case !t.hasPut(joined):
		t.db.guard.Found(joined, there)
	}
}

func (t *Tx) hasPut(joined []byte) bool {
	_, ok := t.touched[maphash.Bytes(t.db.seed, joined)]
	return ok
}

// mostForgotten is how many keys of deleted buckets a transaction remembers with guard.Exact, which
// needs memory for each. Others stay in the filter until it is rebuilt.
const mostForgotten = 1 << 20

// forget records that all keys of a bucket are deleted.
func (t *Tx) forget(b *bbolt.Bucket, path []byte) {
	n := 0
	walk(b, path, nil, func(joined []byte) bool {
		if n++; t.db.exact && n > mostForgotten {
			t.unknown = true
			return false
		}
		t.guarded.Delete(joined)
		return true
	})
}

// removed makes the buckets at a path and below it stale: there may soon be others.
func (t *Tx) removed(path []byte) {
	for p, b := range t.buckets {
		if isWithin([]byte(p), path) {
			b.stale = true
			delete(t.buckets, p)
		}
	}
}

// Cursor is bbolt.Tx.Cursor, without the reserved bucket.
func (t *Tx) Cursor() *Cursor { return t.root.Cursor() }

// Inspect is bbolt.Tx.Inspect, without the reserved bucket.
func (t *Tx) Inspect() bbolt.BucketStructure { return t.root.Inspect() }

// Bucket is bbolt.Tx.Bucket. The reserved bucket is not there.
func (t *Tx) Bucket(name []byte) *Bucket { return t.root.Bucket(name) }

// CreateBucket is bbolt.Tx.CreateBucket.
func (t *Tx) CreateBucket(name []byte) (*Bucket, error) { return t.root.CreateBucket(name) }

// CreateBucketIfNotExists is bbolt.Tx.CreateBucketIfNotExists.
func (t *Tx) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	return t.root.CreateBucketIfNotExists(name)
}

// DeleteBucket is bbolt.Tx.DeleteBucket. It reads the keys of the bucket first.
func (t *Tx) DeleteBucket(name []byte) error { return t.root.DeleteBucket(name) }

// MoveBucket is bbolt.Tx.MoveBucket. It reads the keys of the bucket: they have another path then.
func (t *Tx) MoveBucket(child []byte, src, dst *Bucket) error {
	if src == nil {
		src = t.root
	}
	if dst == nil {
		dst = t.root
	}
	return src.MoveBucket(child, dst)
}

// ForEach is bbolt.Tx.ForEach, without the reserved bucket.
func (t *Tx) ForEach(fn func(name []byte, b *Bucket) error) error {
	return t.root.ForEach(func(name, _ []byte) error { return fn(name, t.root.Bucket(name)) })
}

// isWithin reports whether a path is another one, or leads through it.
func isWithin(path, other []byte) bool {
	return len(path) >= len(other) && slices.Equal(path[:len(other)], other)
}
