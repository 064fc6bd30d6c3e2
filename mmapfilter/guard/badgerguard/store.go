package badgerguard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A store is a badger.DB as the guard sees it.
//
// An entry is divided into chunks, since Badger limits the size of a transaction. The key of a chunk
// has the reserved prefix, the key of the entry, and the number of the chunk:
//
//	prefix | key of the entry | chunk, 2 bytes | -> up to store.chunk bytes of its value
//	prefix | 0xff | 0, 2 bytes                 -> NamespaceOffset, 8 bytes: the note
//
// Only the owner is elsewhere: at guard.OwnerName, in one chunk, whatever the prefix.
//
// Versions up to that of the note were written with a guard; a program without a guard may have written
// later ones. With guard.Exact, every transaction of a guard sets the note, so the store is as a guard
// left it if no version is greater than that of the note. With guard.Rebuild, each call of Position
// sets the note. If the filter is at a greater version than the note, the store may have been
// restored or have lost power since, and the versions after the note may be another program's, so Since
// yields their keys, too.
type store struct {
	db     *badger.DB
	prefix []byte
	chunk  int
	files  *files // the files to sync, or nil if Badger syncs each commit

	// The iterators of Badger skip the keys of banned namespaces, so a filter that is built from them
	// lacks these keys. With another NamespaceOffset, the keys are visible again. So a filter is used
	// only with the NamespaceOffset that it was created with.
	namespaceOffset int
	foreign         bool // the entries were written with another NamespaceOffset

	exact  bool        // Options.Deletes is Exact
	opened uint64      // the greatest version when the store was opened
	noted  uint64      // the version of the note at that time, or 0
	begun  atomic.Bool // the guard has written since

	// Calls that drop keys lock drop, and all other calls lock it for reading, since Badger does not
	// allow reads while keys are dropped.
	drop sync.RWMutex

	pins struct {
		sync.Mutex
		keys map[string]bool // keys that stay in the filter while the store is open; true once a transaction has put them
	}
}

// First bytes of the keys of entries that need care if one transaction has no room for all entries.
const (
	stampEntry   = 's' // without it, the other entries are not used
	deletesEntry = 'd' // has the hashes to delete from the filter
)

const (
	chunkBytes = 2
	mostChunk  = 64 << 10
	noteByte   = 0xff
)

func newStore(db *badger.DB, prefix []byte) (*store, error) {
	o := db.Opts()
	s := &store{db: db, prefix: prefix, namespaceOffset: max(o.NamespaceOffset, -1)}
	s.chunk = int(min(mostChunk, db.MaxBatchSize()/8, o.ValueLogFileSize/8))
	if !o.SyncWrites {
		s.files = &files{dir: o.Dir, valueDir: o.ValueDir}
	}
	s.pins.keys = map[string]bool{}
	written, err := s.readNote()
	if err != nil {
		return nil, fmt.Errorf("badgerguard: read the note: %w", err)
	}
	s.foreign = written != s.namespaceOffset
	return s, nil
}

// owner is the key of the only chunk of the owner.
var owner = append([]byte(guard.OwnerName), make([]byte, chunkBytes)...)

// reserved reports whether a key is reserved for entries.
func (s *store) reserved(key []byte) bool {
	return bytes.HasPrefix(key, s.prefix) || bytes.Equal(key, owner)
}

func (s *store) noteKey() []byte { return s.key([]byte{noteByte, 0, 0}) }

func (s *store) key(rest []byte) []byte {
	return append(s.prefix[:len(s.prefix):len(s.prefix)], rest...)
}

// note returns the note. Each transaction that sets it gives it a new version.
func (s *store) note() *badger.Entry {
	return badger.NewEntry(s.noteKey(), binary.LittleEndian.AppendUint64(nil, uint64(s.namespaceOffset))).WithDiscard()
}

// readNote reads the note. It returns the NamespaceOffset that the entries were written with.
func (s *store) readNote() (offset int, err error) {
	offset = -1
	err = s.db.View(func(txn *badger.Txn) error {
		s.opened = txn.ReadTs()
		item, err := txn.Get(s.noteKey())
		if err == badger.ErrKeyNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		s.noted = item.Version()
		return item.Value(func(value []byte) error {
			if len(value) == 8 {
				offset = int(int64(binary.LittleEndian.Uint64(value)))
			}
			return nil
		})
	})
	return offset, err
}

// scan calls do for the chunks of the entries in a range. The item is valid until do returns.
func (s *store) scan(txn *badger.Txn, values bool, r guard.Range, do func(entry []byte, item *badger.Item) error) error {
	o := badger.IteratorOptions{Prefix: s.prefix, PrefetchValues: values, PrefetchSize: 100}
	it := txn.NewIterator(o)
	defer it.Close()
	for it.Seek(s.key(r.From)); it.Valid(); it.Next() {
		rest := it.Item().Key()[len(s.prefix):]
		if bytes.Compare(rest[:min(len(rest), len(r.To))], r.To) > 0 {
			return nil
		}
		entry := rest[:max(len(rest)-chunkBytes, 0)] // empty if this is no key of a chunk
		if bytes.Compare(entry, r.From) < 0 || bytes.Compare(entry, r.To) >= 0 {
			continue
		}
		if err := do(entry, it.Item()); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) Entries() (entries []guard.Entry, err error) {
	s.drop.RLock()
	defer s.drop.RUnlock()
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(owner)
		if err == nil {
			e := guard.Entry{Key: []byte(guard.OwnerKey)}
			e.Value, err = item.ValueCopy(nil)
			entries = append(entries, e)
		}
		if err == badger.ErrKeyNotFound {
			err = nil
		}
		if s.foreign || err != nil {
			return err
		}
		return s.scan(txn, true, guard.Range{From: []byte{0}, To: []byte{noteByte}}, func(entry []byte, item *badger.Item) error {
			if bytes.Equal(item.Key(), owner) {
				return nil
			}
			if n := len(entries); n == 0 || !bytes.Equal(entries[n-1].Key, entry) {
				entries = append(entries, guard.Entry{Key: bytes.Clone(entry)})
			}
			e := &entries[len(entries)-1]
			return item.Value(func(value []byte) error {
				e.Value = append(e.Value, value...)
				return nil
			})
		})
	})
	slices.SortFunc(entries, func(a, b guard.Entry) int { return bytes.Compare(a.Key, b.Key) })
	return entries, err
}

// chunks returns the keys and values of Badger for an entry.
func (s *store) chunks(e guard.Entry) (chunks []*badger.Entry) {
	for i, value := 0, e.Value; i == 0 || len(value) > 0; i++ {
		n := min(len(value), s.chunk)
		key := binary.BigEndian.AppendUint16(s.key(e.Key), uint16(i))
		if string(e.Key) == guard.OwnerKey {
			key = owner
		}
		chunks = append(chunks, badger.NewEntry(key, value[:n]).WithDiscard())
		value = value[n:]
	}
	return chunks
}

// keysIn returns the keys of the chunks in some ranges. first is the key of the stamp, if a range
// has it.
func (s *store) keysIn(ranges []guard.Range) (first []byte, keys [][]byte, err error) {
	if len(ranges) == 0 {
		return nil, nil, nil
	}
	err = s.db.View(func(txn *badger.Txn) error {
		for _, r := range ranges {
			if err := s.scan(txn, false, r, func(entry []byte, item *badger.Item) error {
				if entry[0] == stampEntry {
					first = item.KeyCopy(nil)
				} else {
					keys = append(keys, item.KeyCopy(nil))
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return first, keys, err
}

// Write uses several transactions if the changes do not fit into one. Their order makes a crash between
// two of them harmless. If the changes remove the stamp, it is removed first, then the other entries. A
// new stamp is set after all other entries. If the stamp stays, entries are removed last.
func (s *store) Write(c guard.Changes) error {
	s.drop.RLock()
	defer s.drop.RUnlock()
	stamp, removed, err := s.keysIn(c.Remove)
	if err != nil {
		return err
	}
	w := &writer{s: s}
	w.begin()
	defer func() { w.txn.Discard() }()
	remove := func() {
		for _, key := range removed {
			w.do(func(txn *badger.Txn) error { return txn.Delete(key) })
		}
	}
	if stamp != nil {
		w.do(func(txn *badger.Txn) error { return txn.Delete(stamp) })
		remove()
	}
	set := map[string]bool{}
	for _, last := range []bool{false, true} {
		for _, e := range c.Set {
			if last != (e.Key[0] == stampEntry) {
				continue
			}
			for _, chunk := range s.chunks(e) {
				set[string(chunk.Key)] = true
				w.do(func(txn *badger.Txn) error { return txn.SetEntry(chunk) })
			}
		}
	}
	if stamp == nil {
		removed = slices.DeleteFunc(removed, func(key []byte) bool { return set[string(key)] })
		remove()
	}
	w.commit()
	if w.err == nil {
		s.begun.Store(true)
	}
	return w.err
}

// A writer makes changes, in several transactions if they do not fit into one.
type writer struct {
	s   *store
	txn *badger.Txn
	err error
}

// begin begins a transaction, and sets the note.
func (w *writer) begin() {
	w.txn = w.s.db.NewTransaction(true)
	w.err = w.txn.SetEntry(w.s.note())
}

func (w *writer) do(change func(*badger.Txn) error) {
	if w.err != nil {
		return
	}
	if w.err = change(w.txn); errors.Is(w.err, badger.ErrTxnTooBig) {
		w.err = nil
		if w.commit(); w.err == nil {
			w.begin()
		}
		if w.err == nil {
			w.err = change(w.txn)
		}
	}
}

func (w *writer) commit() {
	if w.err == nil {
		w.err = w.txn.Commit()
	}
	if w.err == nil && w.s.files != nil {
		w.err = w.s.files.sync(w.s.db)
	}
}

// add adds entries to a transaction of the program. Entries that do not fit are made durable before the
// transaction, except entries of deletes, which are left out: Open must not see deletes of a
// transaction that may never happen. Without such an entry, the filter merely keeps the keys until it
// is rebuilt.
func (s *store) add(txn *badger.Txn, set []guard.Entry) error {
	if s.exact {
		// If there is no room for the note, and no later transaction sets it, the next Open rebuilds
		// the filter.
		if err := txn.SetEntry(s.note()); err != nil && !errors.Is(err, badger.ErrTxnTooBig) {
			return err
		}
	}
	for i, e := range set {
		for _, chunk := range s.chunks(e) {
			err := txn.SetEntry(chunk)
			if errors.Is(err, badger.ErrTxnTooBig) {
				rest := slices.DeleteFunc(slices.Clone(set[i:]), func(e guard.Entry) bool { return e.Key[0] == deletesEntry })
				return s.Write(guard.Changes{Set: rest})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *store) Snapshot() (guard.Snapshot, error) {
	if s.db.IsClosed() {
		return guard.Snapshot{}, badger.ErrDBClosed
	}
	txn := s.db.NewTransaction(false)
	s.pins.Lock()
	pinned := make(map[string]struct{}, len(s.pins.keys))
	for key := range s.pins.keys {
		pinned[key] = struct{}{}
	}
	s.pins.Unlock()
	return guard.Snapshot{
		Keys:  func(yield func([]byte, error) bool) { s.keysOf(txn, pinned, yield) },
		Close: func() error { txn.Discard(); return nil },
	}, nil
}

// keysOf yields the keys that a transaction sees, and the pinned keys.
func (s *store) keysOf(txn *badger.Txn, pinned map[string]struct{}, yield func([]byte, error) bool) {
	s.drop.RLock()
	defer s.drop.RUnlock()
	if s.db.IsClosed() {
		yield(nil, badger.ErrDBClosed)
		return
	}
	// An iterator that meets a damaged block ends as if there were no more keys.
	if err := s.verify(); err != nil {
		yield(nil, err)
		return
	}
	it := txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		if s.reserved(key) {
			continue
		}
		if len(pinned) > 0 {
			delete(pinned, string(key))
		}
		if !yield(key, nil) {
			return
		}
	}
	for key := range pinned {
		if !yield([]byte(key), nil) {
			return
		}
	}
}

// verify reads all blocks of the store.
func (s *store) verify() (err error) {
	defer recoverDamage(&err)
	return s.db.VerifyChecksum()
}

// Has reports false for a key with an expiry time: the key may be gone when the transaction that
// asks for it becomes visible, and then the filter must not delete it. Has also reports false
// for a pinned key, which stays in the filter.
func (s *store) Has(key []byte) (there bool, err error) {
	s.pins.Lock()
	_, pinned := s.pins.keys[string(key)]
	s.pins.Unlock()
	if pinned {
		return false, nil
	}
	s.drop.RLock()
	defer s.drop.RUnlock()
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		there = err == nil && item.ExpiresAt() == 0
		if err == badger.ErrKeyNotFound {
			return nil
		}
		return err
	})
	return there, err
}

// pin keeps a key in the filter as long as the store is open, whatever happens to the key in the store.
// put says that a transaction of the guard has put the key; pin reports whether one has, now or
// earlier.
func (s *store) pin(key []byte, put bool) bool {
	s.pins.Lock()
	defer s.pins.Unlock()
	s.pins.keys[string(key)] = put || s.pins.keys[string(key)]
	return s.pins.keys[string(key)]
}
