package bboltguard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A store is a bbolt.DB as the guard sees it.
//
// bbolt has two locks. A writable transaction holds the writer lock until it ends. A read transaction
// holds the map: a commit that needs a larger map waits for all read transactions, and new read
// transactions wait for that commit. So a goroutine must not wait for a commit while it has a read
// transaction open. Therefore a snapshot begins after a commit that is under way, and ends as soon as
// its keys have been read.
type store struct {
	db   *bbolt.DB
	name []byte // of the bucket of the entries

	mapped int64 // bbolt.Options.InitialMmapSize

	// The commit that is under way holds this lock, since bbolt releases the writer
	// lock before a commit has returned.
	one  sync.Mutex
	mine uint64        // the number of the last transaction of this guard. Guarded by one
	gap  uint64        // the number of the last transaction that was not the guard's. Guarded by one
	seen atomic.Uint64 // the last transaction that the last snapshot sees, or 0

	gate struct {
		sync.Mutex
		busy    bool        // a transaction is being committed
		open    int         // snapshots that have begun
		waiting []*snapshot // snapshots that begin after the commit
	}
	// Read transactions of the program hold readers for reading. A WriteIdle that may need a larger map
	// holds it for writing, so a read transaction that begins meanwhile waits until it has returned.
	readers sync.RWMutex
	// late counts the commits right after which a snapshot began. A filter that is built from such a
	// snapshot lacks the keys that the commit deleted. So transactions that began before the commit do
	// not ask the filter.
	late atomic.Uint64

	// before is what Prepare sees: the state of the store before the transaction that is being
	// prepared. Guarded by the writer lock.
	before struct {
		tx      *bbolt.Tx                // begun by the first call of Has
		buckets map[string]*bbolt.Bucket // by path; nil for a bucket that does not exist
	}
}

// owner is the name of the bucket of the owner. It does not depend on Options.Prefix.
var owner = []byte(guard.OwnerName)

// reserved reports whether a name in the root is the name of a bucket of entries.
func (s *store) reserved(name []byte) bool {
	return bytes.Equal(name, s.name) || bytes.Equal(name, owner)
}

// Entries implements guard.Store.
func (s *store) Entries() (entries []guard.Entry, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(owner); b != nil { // if the value is nil, the bucket is the program's
			entries = append(entries, guard.Entry{Key: []byte(guard.OwnerKey), Value: bytes.Clone(b.Get([]byte(guard.OwnerKey)))})
		}
		b := tx.Bucket(s.name)
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, value []byte) error {
			entries = append(entries, guard.Entry{Key: bytes.Clone(key), Value: bytes.Clone(value)})
			return nil
		})
	})
	return entries, err
}

// lastKey is the key of the number of the last transaction of a guard. It is in the bucket of the
// owner, which is so small that bbolt stores it inside the page of the root, so it costs no page of its
// own.
var lastKey = []byte{0xff}

// last returns the number of the last transaction of a guard, or 0 if it is not known. b is the bucket
// of the owner, or nil.
func last(b *bbolt.Bucket) uint64 {
	if b != nil {
		if value := b.Get(lastKey); len(value) == 8 {
			return binary.LittleEndian.Uint64(value)
		}
	}
	return 0
}

// note stores the number of a transaction of a guard. bbolt numbers the transactions without a gap. If
// there is a gap before this number, note does not store it as long as there is a stamp, so that the
// next Open notices the gap, too. Without a stamp, a filter is being built, and note does not store the
// number if the gap came after its snapshot. REQUIRES: one.
func (s *store) note(tx *bbolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(owner)
	if err != nil {
		return err
	}
	now := uint64(tx.ID())
	if last(b) != now-1 {
		if s.mine != now-1 {
			s.gap = now - 1
		}
		entries, seen := tx.Bucket(s.name), s.seen.Load()
		if entries != nil && entries.Get(stampEntry) != nil || seen > 0 && s.gap > seen {
			return nil
		}
	}
	return b.Put(lastKey, binary.LittleEndian.AppendUint64(nil, now))
}

// stampEntry is the key of the entry that ties a filter to the store.
var stampEntry = []byte("s")

// Untouched implements guard.Watched.
func (s *store) Untouched() error {
	return s.db.View(func(tx *bbolt.Tx) error {
		if last(tx.Bucket(owner)) != uint64(tx.ID()) {
			return guard.ErrTouched
		}
		return nil
	})
}

// add makes changes in a transaction.
func (s *store) add(tx *bbolt.Tx, c guard.Changes) error {
	if c.Remove == nil && c.Set == nil {
		return nil
	}
	b, err := tx.CreateBucketIfNotExists(s.name)
	if err != nil {
		return err
	}
	for _, r := range c.Remove {
		var keys [][]byte // a cursor is not valid after a delete
		cursor := b.Cursor()
		for key, _ := cursor.Seek(r.From); key != nil && bytes.Compare(key, r.To) < 0; key, _ = cursor.Next() {
			keys = append(keys, key)
		}
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
	}
	for _, e := range c.Set {
		in := b
		if string(e.Key) == guard.OwnerKey {
			if in, err = tx.CreateBucketIfNotExists(owner); err != nil {
				return err
			}
		}
		if err := in.Put(e.Key, e.Value); err != nil {
			return err
		}
	}
	return nil
}

// Write implements guard.Store. It waits for the writer lock.
func (s *store) Write(c guard.Changes) error { return s.write(c, func(*bbolt.Tx) bool { return true }) }

// WriteIdle implements guard.IdleWriter.
func (s *store) WriteIdle(c guard.Changes) error { return s.write(c, s.fits) }

// write makes changes in a transaction and commits it. If the commit may have to wait for readers
// unless fits, it returns guard.ErrBusy while there are any.
func (s *store) write(c guard.Changes, fits func(*bbolt.Tx) bool) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	if err := s.add(tx, c); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	idle := !fits(tx)
	if idle {
		if !s.readers.TryLock() {
			return errors.Join(guard.ErrBusy, tx.Rollback())
		}
		defer s.readers.Unlock()
	}
	if err := s.commit(tx, idle); err != nil {
		return err
	}
	if s.db.NoSync {
		return s.db.Sync()
	}
	return nil
}

// fits reports whether it is sure that the commit of a transaction needs no larger map. The transaction
// removes entries of the guard, and sets few and small ones. bbolt maps a power of two from 32 KiB to
// 1 GiB, or a multiple of 1 GiB, that is no smaller than the store and InitialMmapSize. The commit
// writes at most the pages of the guard's bucket that still have entries, the list of free pages, and a
// few pages more.
func (s *store) fits(tx *bbolt.Tx) bool {
	const few, least, step = 32, 1 << 15, 1 << 30
	page, pages := int64(s.db.Info().PageSize), int64(few)
	if b := tx.Bucket(s.name); b != nil {
		st, kept := b.Stats(), int64(0) // st has the pages from before the changes
		_ = b.ForEach(func(key, value []byte) error {
			kept += 3 + int64(len(key)+len(value))/page // if it is alone in a leaf, with a branch above
			return nil
		})
		pages += min(kept, int64(st.BranchPageN+st.BranchOverflowN+st.LeafPageN+st.LeafOverflowN))
	}
	pages += (tx.Size()/page+pages)*8/page + 2 // all pages may be free, with 8 bytes in the list for each
	size := max(tx.Size(), s.mapped)
	mapped := int64(least)
	for mapped < min(size, step) {
		mapped *= 2
	}
	if mapped == step {
		mapped = (size + step - 1) / step * step
	}
	return tx.Size()+pages*page < mapped
}

// commit stores the number of a transaction and commits it. With idle, it rolls the transaction back and
// returns guard.ErrBusy while there is a snapshot, for which the commit could have to wait.
func (s *store) commit(tx *bbolt.Tx, idle bool) error {
	s.one.Lock()
	defer s.one.Unlock()
	now := uint64(tx.ID())
	if err := s.note(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	s.gate.Lock()
	busy := idle && s.gate.open > 0
	s.gate.busy = !busy
	s.gate.Unlock()
	if busy {
		return errors.Join(guard.ErrBusy, tx.Rollback())
	}
	defer func() {
		s.gate.Lock()
		defer s.gate.Unlock()
		s.gate.busy = false
		if len(s.gate.waiting) > 0 {
			s.late.Add(1)
		}
		for _, n := range s.gate.waiting {
			n.begin()
		}
		s.gate.waiting = nil
	}()
	err := tx.Commit()
	if err == nil {
		s.mine = now
	}
	return err
}

// outcome returns how the commit of a transaction with these entries ended if it returned an error. If
// only the last sync failed, the store has the transaction nonetheless, and then it also has the
// entries, since nobody removes them before the guard knows the outcome.
func (s *store) outcome(entries []guard.Entry) guard.Outcome {
	there := false
	err := s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(s.name)
		there = b != nil && len(entries) > 0
		for _, e := range entries {
			if there {
				value := b.Get(e.Key)
				there = value != nil && bytes.Equal(value, e.Value)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return guard.Unknown
	case there:
		return guard.Committed
	}
	return guard.Aborted
}

// A snapshot is a read transaction that begins at once, or right after the commit that is under
// way.
type snapshot struct {
	store  *store
	begun  chan struct{} // closed once tx or err is set
	tx     *bbolt.Tx
	err    error
	closed bool // guarded by gate
}

// Snapshot implements guard.Store. It never waits: while a commit is under way, the snapshot begins
// only after the commit.
func (s *store) Snapshot() (guard.Snapshot, error) {
	n := &snapshot{store: s, begun: make(chan struct{})}
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.gate.busy {
		s.gate.waiting = append(s.gate.waiting, n)
	} else if n.begin(); n.err != nil {
		return guard.Snapshot{}, n.err
	}
	return guard.Snapshot{Keys: n.keys, Close: n.close}, nil
}

// begin begins the transaction. REQUIRES: gate, and that nothing is being committed.
func (n *snapshot) begin() {
	if !n.closed {
		if n.tx, n.err = n.store.db.Begin(false); n.err == nil {
			n.store.gate.open++
			n.store.seen.Store(uint64(n.tx.ID()))
		}
	}
	close(n.begun)
}

// keys yields the joined keys. Then it ends the transaction, since the next write of the guard may
// need a larger map.
func (n *snapshot) keys(yield func([]byte, error) bool) {
	<-n.begun
	if n.err != nil {
		yield(nil, n.err)
		return
	}
	defer n.close()
	root := n.tx.Cursor().Bucket()
	walk(root, nil, n.store.reserved, func(joined []byte) bool { return yield(joined, nil) })
}

func (n *snapshot) close() error {
	n.store.gate.Lock()
	tx := n.tx
	n.closed, n.tx = true, nil
	n.store.gate.Unlock()
	if tx == nil {
		return nil
	}
	err := tx.Rollback()
	n.store.gate.Lock()
	n.store.gate.open--
	n.store.gate.Unlock()
	return err
}

// prepare is t.Prepare. REQUIRES: the writer lock, so that nothing is committed meanwhile.
func (s *store) prepare(t *guard.Tx) guard.Changes {
	defer func() {
		if s.before.tx != nil {
			_ = s.before.tx.Rollback() // it is a read transaction, so there can be no error
		}
		s.before.tx, s.before.buckets = nil, nil
	}()
	return t.Prepare()
}

// Has implements guard.Store. It is called only during prepare.
func (s *store) Has(joined []byte) (there bool, err error) {
	b := &s.before
	if b.tx == nil {
		if b.tx, err = s.db.Begin(false); err != nil {
			b.tx = nil
			return false, err
		}
		b.buckets = map[string]*bbolt.Bucket{}
	}
	key, names := SplitKey(joined)
	path := joined[:len(joined)-len(key)]
	bucket, ok := b.buckets[string(path)]
	if !ok {
		bucket = find(b.tx, names)
		b.buckets[string(path)] = bucket
	}
	return bucket != nil && bucket.Get(key) != nil, nil
}

// find returns the bucket at a path of names, or nil if there is none.
func find(tx *bbolt.Tx, names [][]byte) *bbolt.Bucket {
	b := tx.Cursor().Bucket()
	for _, name := range names {
		if b = b.Bucket(name); b == nil {
			return nil
		}
	}
	return b
}
