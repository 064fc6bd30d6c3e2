package pebbleguard

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A store is a pebble.DB as the guard sees it.
type store struct {
	db     *pebble.DB
	prefix []byte // of the keys of entries
	end    []byte // the first key after the reserved keys
	noWAL  bool   // there is no WAL, so only a flush makes writes durable
	opened opening
}

func newStore(prefix []byte, noWAL bool) *store {
	return &store{prefix: prefix, end: after(prefix), noWAL: noWAL}
}

// after returns the first key that is greater than all keys with a prefix, or nil if there is none.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for len(end) > 0 {
		if end[len(end)-1]++; end[len(end)-1] != 0 {
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}

var owner = []byte(guard.OwnerName)

// prefixOf returns the prefix of an entry's key. The prefix of the owner does not depend on
// the options.
func (s *store) prefixOf(entry []byte) []byte {
	if string(entry) == guard.OwnerKey {
		return owner[:len(owner)-len(entry)]
	}
	return s.prefix
}

func (s *store) key(entry []byte) []byte { return slices.Concat(s.prefixOf(entry), entry) }

// entry is the inverse of key.
func (s *store) entry(key []byte) []byte {
	if bytes.Equal(key, owner) {
		return []byte(guard.OwnerKey)
	}
	return key[len(s.prefix):]
}

// reserved reports whether a key is the key of an entry.
func (s *store) reserved(key []byte) bool {
	return bytes.HasPrefix(key, s.prefix) || bytes.Equal(key, owner)
}

// overlaps reports whether the keys from start up to end may have entries among them. If end is
// nil, the range has all keys from start on.
func (s *store) overlaps(start, end []byte) bool {
	return (s.end == nil || bytes.Compare(start, s.end) < 0) && (end == nil || bytes.Compare(end, s.prefix) > 0)
}

func (s *store) Entries() (entries []guard.Entry, err error) {
	if entries, err = s.entriesIn(s.prefix, s.key(openingEntry)); err == nil && !bytes.HasPrefix(owner, s.prefix) {
		var one []guard.Entry
		one, err = s.entriesIn(owner, append(owner[:len(owner):len(owner)], 0))
		entries = append(entries, one...)
	}
	slices.SortFunc(entries, func(a, b guard.Entry) int { return bytes.Compare(a.Key, b.Key) })
	return entries, err
}

// entriesIn returns the entries whose keys are from start up to end.
func (s *store) entriesIn(start, end []byte) (entries []guard.Entry, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		entries = append(entries, guard.Entry{Key: bytes.Clone(s.entry(it.Key())), Value: bytes.Clone(value)})
	}
	return entries, errors.Join(it.Error(), it.Close())
}

// add adds changes to a batch.
func (s *store) add(b *pebble.Batch, c guard.Changes) error {
	for _, r := range c.Remove {
		if err := b.DeleteRange(s.key(r.From), s.key(r.To), nil); err != nil {
			return err
		}
	}
	for _, e := range c.Set {
		prefix := s.prefixOf(e.Key)
		d := b.SetDeferred(len(prefix)+len(e.Key), len(e.Value))
		copy(d.Key[copy(d.Key, prefix):], e.Key)
		copy(d.Value, e.Value)
		if err := d.Finish(); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) Write(c guard.Changes) error {
	b := s.db.NewBatch()
	defer b.Close()
	if err := s.add(b, c); err != nil {
		return err
	}
	if err := s.add(b, s.opened.changes()); err != nil {
		return err
	}
	if s.noWAL {
		if err := b.Commit(pebble.NoSync); err != nil {
			return err
		}
		return s.db.Flush()
	}
	// The log is in the order of the commits, so all earlier commits become durable with
	// this one.
	return b.Commit(pebble.Sync)
}

// Snapshot opens its iterator at once: an excise takes keys away even from open snapshots, but not from
// open iterators.
func (s *store) Snapshot() (guard.Snapshot, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly})
	if err != nil {
		return guard.Snapshot{}, err
	}
	return guard.Snapshot{
		Keys: func(yield func([]byte, error) bool) {
			for ok := it.First(); ok; ok = it.Next() {
				if !s.reserved(it.Key()) && !yield(it.Key(), nil) {
					return
				}
			}
			if err := it.Error(); err != nil {
				yield(nil, err)
			}
		},
		Close: it.Close,
	}, nil
}

func (s *store) Has(key []byte) (bool, error) {
	_, c, err := s.db.Get(key)
	if err == pebble.ErrNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.Close()
}
