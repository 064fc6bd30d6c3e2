package bboltguard

import "go.etcd.io/bbolt"

type engineCursor = bbolt.Cursor

// A Cursor is a bbolt.Cursor of a DB. In the root, it skips the reserved buckets.
type Cursor struct {
	*engineCursor
	bucket *Bucket
	key    []byte // the key that the cursor is at
}

// Cursor is bbolt.Bucket.Cursor.
func (b *Bucket) Cursor() *Cursor { return &Cursor{engineCursor: b.engineBucket.Cursor(), bucket: b} }

// Bucket is bbolt.Cursor.Bucket.
func (c *Cursor) Bucket() *Bucket { return c.bucket }

// First is bbolt.Cursor.First.
func (c *Cursor) First() (key, value []byte) {
	for key, value = c.engineCursor.First(); c.bucket.hides(key); {
		key, value = c.engineCursor.Next()
	}
	c.key = key
	return key, value
}

// Last is bbolt.Cursor.Last.
func (c *Cursor) Last() (key, value []byte) {
	for key, value = c.engineCursor.Last(); c.bucket.hides(key); {
		key, value = c.engineCursor.Prev()
	}
	c.key = key
	return key, value
}

// Seek is bbolt.Cursor.Seek.
func (c *Cursor) Seek(seek []byte) (key, value []byte) {
	for key, value = c.engineCursor.Seek(seek); c.bucket.hides(key); {
		key, value = c.engineCursor.Next()
	}
	c.key = key
	return key, value
}

// Next is bbolt.Cursor.Next. At the end, the cursor stays at the last key.
func (c *Cursor) Next() (key, value []byte) {
	key, value = c.engineCursor.Next()
	for c.bucket.hides(key) {
		if key, value = c.engineCursor.Next(); key == nil {
			c.Last()
		}
	}
	if key != nil {
		c.key = key
	}
	return key, value
}

// Prev is bbolt.Cursor.Prev. At the beginning, the cursor stays at the first key.
func (c *Cursor) Prev() (key, value []byte) {
	key, value = c.engineCursor.Prev()
	for c.bucket.hides(key) {
		key, value = c.engineCursor.Prev()
	}
	if key == nil {
		c.First()
		return nil, nil
	}
	c.key = key
	return key, value
}

// Delete is bbolt.Cursor.Delete. It deletes the key that the cursor returned last, so a second Delete
// at the same place does nothing.
func (c *Cursor) Delete() error { return c.bucket.Delete(c.key) }
