package bboltguard

import (
	"hash/maphash"
	"slices"

	"go.etcd.io/bbolt"
)

// put records that the transaction puts a key.
func (t *Tx) put(joined []byte) {
	t.touched[maphash.Bytes(t.db.seed, joined)] = struct{}{}
	t.guarded.Put(joined)
}

// absent reports whether the transaction certainly does not see a key.
func (t *Tx) absent(joined []byte) bool {
	if !t.Writable() {
		// Ask the filter before loading late, since late changes before a filter that lacks the deleted
		// keys comes into use.
		return t.db.guard.AbsentIn(t.view, joined) && t.late == t.db.store.late.Load()
	}
	// A writable transaction: nobody else commits until it ends.
	return !t.hasPut(joined) && t.db.guard.Absent(joined)
}

// found tells the guard whether the store has a key, if the filter was asked for it.
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

// mostForgotten is how many keys of deleted buckets a transaction remembers with guard.Exact, since
// each takes memory. Further keys stay in the filter until it is rebuilt.
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

// removed makes the Buckets at a path and below it stale: the transaction may create other buckets
// there.
func (t *Tx) removed(path []byte) {
	for p, b := range t.buckets {
		if isWithin([]byte(p), path) {
			b.stale = true
			delete(t.buckets, p)
		}
	}
}

// isWithin reports whether path is other, or leads through other.
func isWithin(path, other []byte) bool {
	return len(path) >= len(other) && slices.Equal(path[:len(other)], other)
}
