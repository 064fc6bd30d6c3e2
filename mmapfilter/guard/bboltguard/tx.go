package bboltguard

import (
	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Begin is bbolt.DB.Begin.
func (d *DB) Begin(writable bool) (*Tx, error) {
	t := &Tx{db: d}
	if !writable {
		d.store.readers.RLock()
		// The view is from before the transaction, so that keys that leave the filter later are noticed.
		t.late, t.view = d.store.late.Load(), d.guard.View()
	}
	var err error
	if t.engineTx, err = d.DB.Begin(writable); err != nil {
		if !writable {
			d.store.readers.RUnlock()
		}
		return nil, err
	}
	if writable {
		t.guarded = d.guard.Begin()
		t.touched = map[uint64]struct{}{}
		t.buckets = map[string]*Bucket{}
	}
	t.root = &Bucket{engineBucket: t.engineTx.Cursor().Bucket(), tx: t}
	return t, nil
}

// Update is bbolt.DB.Update.
func (d *DB) Update(fn func(*Tx) error) error {
	t, err := d.Begin(true)
	if err != nil {
		return err
	}
	if err := t.manage(fn); err != nil {
		return err
	}
	return t.Commit()
}

// View is bbolt.DB.View.
func (d *DB) View(fn func(*Tx) error) error {
	t, err := d.Begin(false)
	if err != nil {
		return err
	}
	if err := t.manage(fn); err != nil {
		return err
	}
	return t.Rollback()
}

// manage runs the function of Update and View. It ends the transaction if the function
// fails.
func (t *Tx) manage(fn func(*Tx) error) error {
	t.managed = true
	returned := false
	defer func() {
		if t.managed = false; !returned {
			_ = t.Rollback() // fn panics
		}
	}()
	err := fn(t)
	t.managed, returned = false, true
	if err != nil {
		_ = t.Rollback() // as in bbolt.DB.Update, the caller gets the error of fn
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

// Rollback is bbolt.Tx.Rollback. The filter never gets the keys of the transaction.
func (t *Tx) Rollback() error {
	if t.managed {
		panic("managed tx rollback not allowed")
	}
	read := t.engineTx.DB() != nil && !t.Writable()
	err := t.engineTx.Rollback()
	if read {
		t.db.store.readers.RUnlock()
	}
	return err
}

// Commit is bbolt.Tx.Commit. Before it, the keys are put into the filter, and in the same transaction
// into the outbox.
func (t *Tx) Commit() error {
	if t.managed {
		panic("managed tx commit not allowed")
	}
	if t.engineTx.DB() == nil || !t.Writable() {
		return t.engineTx.Commit() // for its error
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
			_ = t.engineTx.Rollback() // a panic leaves the transaction open
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
		err = s.commit(t.engineTx, false)
	}
	returned = true
	return err
}

// Cursor is bbolt.Tx.Cursor, without the reserved buckets.
func (t *Tx) Cursor() *Cursor { return t.root.Cursor() }

// Inspect is bbolt.Tx.Inspect, without the reserved buckets.
func (t *Tx) Inspect() bbolt.BucketStructure { return t.root.Inspect() }

// Bucket is bbolt.Tx.Bucket. It returns nil for the reserved buckets.
func (t *Tx) Bucket(name []byte) *Bucket { return t.root.Bucket(name) }

// CreateBucket is bbolt.Tx.CreateBucket.
func (t *Tx) CreateBucket(name []byte) (*Bucket, error) { return t.root.CreateBucket(name) }

// CreateBucketIfNotExists is bbolt.Tx.CreateBucketIfNotExists.
func (t *Tx) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	return t.root.CreateBucketIfNotExists(name)
}

// DeleteBucket is bbolt.Tx.DeleteBucket. It reads the keys of the bucket first.
func (t *Tx) DeleteBucket(name []byte) error { return t.root.DeleteBucket(name) }

// MoveBucket is bbolt.Tx.MoveBucket. It reads the keys of the bucket, since their path changes.
func (t *Tx) MoveBucket(child []byte, src, dst *Bucket) error {
	if src == nil {
		src = t.root
	}
	if dst == nil {
		dst = t.root
	}
	return src.MoveBucket(child, dst)
}

// ForEach is bbolt.Tx.ForEach, without the reserved buckets.
func (t *Tx) ForEach(fn func(name []byte, b *Bucket) error) error {
	return t.root.ForEach(func(name, _ []byte) error { return fn(name, t.root.Bucket(name)) })
}
