package bboltguard

import (
	"slices"

	"go.etcd.io/bbolt"
)

// hides reports whether a key in this bucket is the name of a reserved bucket.
func (b *Bucket) hides(key []byte) bool { return len(b.path) == 0 && b.tx.db.store.reserved(key) }

// refuses returns an error if the guard does not allow a write to a key or bucket.
func (b *Bucket) refuses(key []byte) error {
	if b.hides(key) {
		return ErrReserved
	}
	if b.stale {
		return ErrNotFollowed
	}
	return nil
}

// child returns the Bucket for a bucket in this one.
func (b *Bucket) child(name []byte, e *bbolt.Bucket) *Bucket {
	path := appendName(slices.Clip(b.path), name)
	n := &Bucket{engineBucket: e, tx: b.tx, path: path, stale: b.stale}
	if b.tx.buckets == nil || b.stale {
		return n
	}
	if old := b.tx.buckets[string(path)]; old != nil {
		if old.engineBucket == e {
			return old
		}
		b.tx.removed(path)
	}
	b.tx.buckets[string(path)] = n
	return n
}

// join returns the key that the filter has for a key of this bucket.
func (b *Bucket) join(key []byte) []byte {
	joined := make([]byte, 0, len(b.path)+1+len(key))
	return appendKey(append(joined, b.path...), key)
}

// Tx is bbolt.Bucket.Tx.
func (b *Bucket) Tx() *Tx { return b.tx }

// Get is bbolt.Bucket.Get. It does not ask the store if the filter knows that the key is absent.
func (b *Bucket) Get(key []byte) []byte {
	if b.stale {
		return b.engineBucket.Get(key)
	}
	joined := b.join(key)
	if b.tx.absent(joined) {
		return nil
	}
	value := b.engineBucket.Get(key)
	b.tx.found(joined, value != nil)
	return value
}

// Has reports whether the bucket has a key. Unlike Get, it returns no value, so it also finds a key
// that this transaction has put with a nil value. It reports false for the name of a bucket.
func (b *Bucket) Has(key []byte) bool {
	joined := b.join(key)
	if !b.stale && b.tx.absent(joined) {
		return false
	}
	k, value := b.engineBucket.Cursor().Seek(key)
	there := k != nil && slices.Equal(k, key) && (value != nil || b.engineBucket.Bucket(key) == nil)
	if !b.stale {
		b.tx.found(joined, there)
	}
	return there
}

// Put is bbolt.Bucket.Put.
func (b *Bucket) Put(key, value []byte) error {
	if err := b.refuses(key); err != nil {
		return err
	}
	if err := b.engineBucket.Put(key, value); err != nil {
		return err
	}
	b.tx.put(b.join(key))
	return nil
}

// Delete is bbolt.Bucket.Delete.
func (b *Bucket) Delete(key []byte) error {
	if err := b.refuses(key); err != nil {
		return err
	}
	there := b.tx.db.exact // then Prepare asks the store whether the key is there
	if !there && b.Writable() && b.tx.engineTx.DB() != nil {
		k, _ := b.engineBucket.Cursor().Seek(key)
		there = k != nil && slices.Equal(k, key)
	}
	if err := b.engineBucket.Delete(key); err != nil {
		return err
	}
	if there {
		b.tx.guarded.Delete(b.join(key))
	}
	return nil
}

// Bucket is bbolt.Bucket.Bucket.
func (b *Bucket) Bucket(name []byte) *Bucket {
	if b.hides(name) {
		return nil
	}
	e := b.engineBucket.Bucket(name)
	if e == nil {
		return nil
	}
	return b.child(name, e)
}

// CreateBucket is bbolt.Bucket.CreateBucket.
func (b *Bucket) CreateBucket(name []byte) (*Bucket, error) {
	return b.create(name, b.engineBucket.CreateBucket)
}

// CreateBucketIfNotExists is bbolt.Bucket.CreateBucketIfNotExists.
func (b *Bucket) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	return b.create(name, b.engineBucket.CreateBucketIfNotExists)
}

func (b *Bucket) create(name []byte, create func([]byte) (*bbolt.Bucket, error)) (*Bucket, error) {
	if err := b.refuses(name); err != nil {
		return nil, err
	}
	e, err := create(name)
	if err != nil {
		return nil, err
	}
	return b.child(name, e), nil
}

// DeleteBucket is bbolt.Bucket.DeleteBucket. It reads the keys of the bucket first.
func (b *Bucket) DeleteBucket(name []byte) error {
	if err := b.refuses(name); err != nil {
		return err
	}
	if b.tx.engineTx.DB() == nil || !b.Writable() || b.engineBucket.Bucket(name) == nil {
		return b.engineBucket.DeleteBucket(name) // for its error
	}
	// From here on, nothing fails if the store is sound. If something fails, nobody knows which keys
	// are left.
	b.tx.broken = ErrNotFollowed
	path := appendName(slices.Clip(b.path), name)
	b.tx.forget(b.engineBucket.Bucket(name), path)
	if err := b.engineBucket.DeleteBucket(name); err != nil {
		return err
	}
	b.tx.removed(path)
	b.tx.broken = nil
	return nil
}

// MoveBucket is bbolt.Bucket.MoveBucket. It reads the keys of the bucket, since their path changes. A
// bucket cannot be moved into itself.
func (b *Bucket) MoveBucket(name []byte, dst *Bucket) error {
	if err := b.refuses(name); err != nil {
		return err
	}
	if err := dst.refuses(name); err != nil {
		return err
	}
	if b.tx != dst.tx || b.tx.engineTx.DB() == nil || !b.Writable() || b.engineBucket.Bucket(name) == nil {
		return b.engineBucket.MoveBucket(name, dst.engineBucket) // for its error
	}
	from, to := appendName(slices.Clip(b.path), name), appendName(slices.Clip(dst.path), name)
	if isWithin(dst.path, from) {
		return ErrNotFollowed
	}
	before := b.engineBucket.Bucket(name)
	if err := b.engineBucket.MoveBucket(name, dst.engineBucket); err != nil {
		return err
	}
	b.tx.broken = ErrNotFollowed
	b.tx.forget(before, from)
	// Read the keys that bbolt has moved: they may differ from the keys before this transaction.
	walk(dst.engineBucket.Bucket(name), to, nil, func(joined []byte) bool {
		b.tx.put(joined)
		return true
	})
	b.tx.removed(from)
	b.tx.broken = nil
	return nil
}

// SetRootPage is refused, since it replaces all keys of the bucket.
func (b *Bucket) SetRootPage(any) error { return ErrNotFollowed }

// ForEach is bbolt.Bucket.ForEach.
func (b *Bucket) ForEach(fn func(key, value []byte) error) error {
	return b.engineBucket.ForEach(func(key, value []byte) error {
		if b.hides(key) {
			return nil
		}
		return fn(key, value)
	})
}

// ForEachBucket is bbolt.Bucket.ForEachBucket.
func (b *Bucket) ForEachBucket(fn func(name []byte) error) error {
	return b.engineBucket.ForEachBucket(func(name []byte) error {
		if b.hides(name) {
			return nil
		}
		return fn(name)
	})
}

// Inspect is bbolt.Bucket.Inspect.
func (b *Bucket) Inspect() bbolt.BucketStructure {
	s := b.engineBucket.Inspect()
	s.Children = slices.DeleteFunc(s.Children, func(c bbolt.BucketStructure) bool { return b.hides([]byte(c.Name)) })
	return s
}
