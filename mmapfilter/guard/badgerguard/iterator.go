package badgerguard

import "github.com/dgraph-io/badger/v4"

// An Iterator is a badger.Iterator that skips the reserved keys.
type Iterator struct {
	*badger.Iterator
	prefix  []byte
	beyond  []byte // where to go on after the reserved keys
	reverse bool
}

// NewIterator is badger.Txn.NewIterator, without the reserved keys.
func (t *Txn) NewIterator(o badger.IteratorOptions) *Iterator {
	return t.iterator(t.Txn.NewIterator(o), o.Reverse)
}

// NewKeyIterator is badger.Txn.NewKeyIterator. It yields no versions of a reserved key.
func (t *Txn) NewKeyIterator(key []byte, o badger.IteratorOptions) *Iterator {
	return t.iterator(t.Txn.NewKeyIterator(key, o), o.Reverse)
}

func (t *Txn) iterator(it *badger.Iterator, reverse bool) *Iterator {
	s := t.db.store
	i := &Iterator{Iterator: it, prefix: s.prefix, beyond: s.prefix, reverse: reverse}
	if !reverse {
		i.beyond = s.key([]byte{noteByte, noteByte})
	}
	return i
}

// Rewind is badger.Iterator.Rewind.
func (i *Iterator) Rewind() {
	i.Iterator.Rewind()
	i.skip()
}

// Seek is badger.Iterator.Seek.
func (i *Iterator) Seek(key []byte) {
	i.Iterator.Seek(key)
	i.skip()
}

// Next is badger.Iterator.Next.
func (i *Iterator) Next() {
	i.Iterator.Next()
	i.skip()
}

// skip skips the reserved keys. It does not call Item, which would count as a read of the transaction.
// It seeks i.beyond, a key that nobody writes.
func (i *Iterator) skip() {
	for i.atOwner() { // the owner may come before the other keys
		i.Iterator.Next()
	}
	if i.Iterator.ValidForPrefix(i.prefix) {
		i.Iterator.Seek(i.beyond)
	}
	for i.atOwner() { // or after them
		i.Iterator.Next()
	}
}

// atOwner reports whether the iterator is at the owner, and not at a longer key of the program.
func (i *Iterator) atOwner() bool {
	if !i.Iterator.ValidForPrefix(owner) {
		return false
	}
	longer := append(owner[:len(owner):len(owner)], 0)
	for next := range 256 {
		if longer[len(owner)] = byte(next); i.Iterator.ValidForPrefix(longer) {
			return false
		}
	}
	return true
}
