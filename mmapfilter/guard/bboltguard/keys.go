package bboltguard

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"
)

// The filter has one key for each key of the store: the path of its bucket, then the key. The path is
// the names of the buckets from the root on, each after its length as an unsigned varint. No name is
// empty, so a length of 0 ends the path.

// JoinKey returns the key that the filter has for a key in a bucket. buckets has the names of the
// buckets from the outermost one down to the bucket itself.
func JoinKey(key []byte, buckets ...[]byte) []byte {
	var path []byte
	for _, name := range buckets {
		path = appendName(path, name)
	}
	return appendKey(path, key)
}

// SplitKey splits what JoinKey returns; see guard.Options.Covers. For other bytes it returns nil.
// The results share memory with the argument.
func SplitKey(joined []byte) (key []byte, buckets [][]byte) {
	for {
		length, n := binary.Uvarint(joined)
		if n <= 0 || length > uint64(len(joined)-n) {
			return nil, nil
		}
		if joined = joined[n:]; length == 0 {
			return joined, buckets
		}
		buckets = append(buckets, joined[:length:length])
		joined = joined[length:]
	}
}

// appendName appends the name of a bucket to the path of the bucket that it is in.
func appendName(path, name []byte) []byte {
	return append(binary.AppendUvarint(path, uint64(len(name))), name...)
}

// appendKey appends a key to the path of its bucket.
func appendKey(path, key []byte) []byte { return append(append(path, 0), key...) }

// walk calls do with the joined key of each key in a bucket and in all buckets within it, until do
// returns false. The argument of do is valid until do returns. If skip is not nil, walk skips the
// buckets in b for whose names skip returns true.
func walk(b *bbolt.Bucket, path []byte, skip func(name []byte) bool, do func(joined []byte) bool) bool {
	path = slices.Clip(path)
	var joined []byte
	c := b.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		if value == nil { // a bucket, or a key that this transaction has put without a value
			if child := b.Bucket(key); child != nil {
				if (skip == nil || !skip(key)) && !walk(child, appendName(path, key), nil, do) {
					return false
				}
				continue
			}
		}
		joined = append(append(append(joined[:0], path...), 0), key...)
		if !do(joined) {
			return false
		}
	}
	return true
}
