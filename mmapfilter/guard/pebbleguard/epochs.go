package pebbleguard

import (
	"encoding/binary"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// An epoch ends with a call of Position, or when unlogged begins the next one. Its number is the
// position of its transactions. A transaction first hands its keys to the filter, and then belongs to
// the epoch that is current at that moment. The store has an entry for this epoch before it has the
// transaction. So if a filter has reached epoch n and the log has the entry of a later epoch, all
// transactions of the later epoch are in the log, too, after this entry.
type epoch struct {
	number   uint64
	previous uint64 // the last epoch before it that has an entry, or whose keys the log lacks
}

// epochEntry is the key of the entry of the last epoch. It is outside the range of the guard's own
// entries, because the guard sometimes removes that whole range.
var epochEntry = []byte{0xff}

func (e epoch) changes() guard.Changes {
	value := binary.LittleEndian.AppendUint64(nil, e.number)
	value = binary.LittleEndian.AppendUint64(value, e.previous)
	return guard.Changes{Set: []guard.Entry{{Key: epochEntry, Value: value}}}
}

// decodeEpoch decodes the entry of an epoch. For a damaged value it returns an epoch whose number is
// lower than that of the epoch before it.
func decodeEpoch(value []byte) epoch {
	if len(value) != 16 {
		return epoch{previous: ^uint64(0)}
	}
	return epoch{number: binary.LittleEndian.Uint64(value), previous: binary.LittleEndian.Uint64(value[8:])}
}

// A logged is a part of a file of the WAL: from the entry of an epoch, or from the start of
// the file, up to the next entry of an epoch.
type logged struct {
	file  uint64
	epoch epoch  // its entry begins the part; zero at the start of the file
	keys  []byte // each key with its length before it
}

// Epochs are the positions of a store.
type epochs struct {
	current atomic.Uint64
	entered atomic.Uint64 // the last epoch whose entry is in the store
	enters  sync.Mutex
	flushes struct {
		sync.Mutex        // held while a flush waits for the filter
		durable    uint64 // the last epoch for which a flush has waited
	}

	// For Since: what the store had when it was opened.
	log    []logged
	logErr error
	last   epoch
}

// begin begins the epoch after the last one in the store.
func (p *epochs) begin(s *store) error {
	value, c, err := s.db.Get(s.key(epochEntry))
	if err == nil {
		p.last = decodeEpoch(value)
		err = c.Close()
	}
	if err != nil && err != pebble.ErrNotFound {
		return err
	}
	p.current.Store(p.last.number + 1)
	p.entered.Store(p.last.number)
	p.flushes.durable = p.last.number
	return nil
}

// Position is part of guard.Ordered. A transaction that reads the number before Position changes it has
// already handed its keys to the filter.
func (p *epochs) Position() (uint64, error) { return p.current.Add(1) - 1, nil }

// enter puts the entry of the current epoch into the store, unless it is there. See DB.prepare.
func (s *loggedStore) enter() error {
	if s.current.Load() == s.entered.Load() {
		return nil
	}
	s.enters.Lock()
	defer s.enters.Unlock()
	now := s.current.Load()
	if now == s.entered.Load() {
		return nil
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := s.add(b, epoch{number: now, previous: s.entered.Load()}.changes()); err != nil {
		return err
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	s.entered.Store(now)
	return nil
}

// beforeFlush makes the filter durable before a flush takes keys out of the log. If the sync fails,
// Since later finds that the log lacks an epoch.
func (s *loggedStore) beforeFlush(g *guard.Guard) {
	s.flushes.Lock()
	defer s.flushes.Unlock()
	if now := s.entered.Load(); now > s.flushes.durable && g.Sync() == nil {
		s.flushes.durable = now
	}
}

// unlogged makes the keys of all prepared transactions durable in the filter, since the log does not
// get ingested keys. These keys get an epoch of their own, which never has an entry; the next epoch has
// one. So Since refuses a filter of an earlier epoch, such as a filter whose sync has failed.
func (s *loggedStore) unlogged() error {
	s.enters.Lock()
	defer s.enters.Unlock()
	own := s.current.Add(1)
	s.guard.Load().Sync()
	s.current.CompareAndSwap(own, own+1) // in case there was no sync
	e := epoch{number: s.current.Load(), previous: own}
	if err := s.Write(e.changes()); err != nil {
		return err
	}
	s.entered.Store(e.number)
	return nil
}

// reached returns the last epoch up to which the log has the keys of all epochs after at, the epoch of
// a filter. The part of the log that Pebble has read must have the entry of each of these epochs. If an
// entry is missing, the store has flushed keys that the filter lacks. first is the first file that
// Pebble has read.
func (p *epochs) reached(at, first uint64) uint64 {
	reached := at
	for _, l := range p.log {
		if e := l.epoch; l.file >= first && e.previous <= reached {
			reached = max(reached, e.number)
		}
	}
	return reached
}

// Since is part of guard.Ordered.
func (s *loggedStore) Since(at uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		err := s.logErr
		if err == nil && (s.last.previous > s.last.number || s.last.number > s.reached(at, s.first.Load())) {
			err = guard.ErrGone
		}
		if err != nil {
			yield(nil, err)
			return
		}
		behind := false
		for _, l := range s.log {
			if behind = behind || l.epoch.number > at; !behind {
				continue
			}
			for rest := l.keys; len(rest) > 0; {
				n, size := binary.Uvarint(rest)
				key := rest[size : size+int(n)]
				if rest = rest[size+int(n):]; !yield(key, nil) {
					return
				}
			}
		}
	}
}
