package guard

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// A log is the write-ahead log of a store, in the place of an outbox.
type log struct {
	store  Logged
	filter guarded.Filter
	covers func(key []byte) bool
	// took is called when hashes have come into the filter: known of them changed nothing, and for left
	// there was no room.
	took func(known uint64, left []uint64)
	// whole reports whether the filter has all that it has been given.
	whole func() bool

	incoming incoming
	current  atomic.Uint64 // epoch
	entered  atomic.Uint64 // the last epoch whose entry is in the store
	durable  atomic.Uint64 // the last one whose number the filter has durably
	enters   struct {
		sync.Mutex
		least uint64
	}
	syncs struct {
		sync.Mutex
		token token
	}
	many chan struct{} // it is time to drain

	// Of Open: what was in the log before it.
	epochs  []epoch
	covered uint64   // the filter has all transactions up to this epoch
	batch   []uint64 // hashes
	left    []uint64 // hashes for which the filter has no room
	read    uint64   // how many have been in a batch
}

func newLog(store Logged) *log {
	l := &log{store: store, many: make(chan struct{}, 1)}
	l.current.Store(1)
	return l
}

// put puts hashes of a transaction on their way into the filter, and has it enter the epoch.
func (l *log) put(hashes []uint64) error {
	rest, many := l.incoming.put(hashes)
	if many {
		select {
		case l.many <- struct{}{}:
		default:
		}
	}
	if len(rest) > 0 { // the background is behind
		if err := l.take(rest); err != nil {
			return err
		}
	}
	return l.enter()
}

// take puts hashes into the filter. When that is full, the others of them overflow: to find no room
// takes long, and a larger filter waits for this. Those that the filter has overflow, too: a
// rebuild that is under way learns only of what is inserted.
func (l *log) take(hashes []uint64) error {
	n, added, err := l.filter.InsertUniqueHashes(hashes)
	l.took(uint64(n-added), hashes[n:])
	if errors.Is(err, mmapfilter.ErrFull) {
		return nil
	}
	return err
}

// enter has the entry of the current epoch in the store. The keys of the transaction that calls it
// are on their way into the filter; it is not in the store yet.
func (l *log) enter() error {
	if l.isUsed() {
		return nil
	}
	l.enters.Lock()
	defer l.enters.Unlock()
	if l.isUsed() {
		return nil
	}
	now := l.current.Load()
	if err := l.store.Append(epoch{number: now, previous: l.entered.Load(), least: l.enters.least}.entry()); err != nil {
		return err
	}
	l.entered.Store(now)
	return nil
}

// isUsed reports whether the current epoch has its entry.
func (l *log) isUsed() bool { return l.current.Load() == l.entered.Load() }

// isDurable reports whether the filter has the keys of all transactions that are in the store durably.
func (l *log) isDurable() bool { return l.entered.Load() <= l.durable.Load() }

// drain puts what is on its way into the filter.
func (l *log) drain() error { return l.incoming.drain(l.take) }

// sync ends the epoch and makes the filter durable. If next is not 0, that is the token from now on.
func (l *log) sync(next token) error {
	l.syncs.Lock()
	defer l.syncs.Unlock()
	// Who reads the number of the epoch before it changes has put its keys before that.
	ended := l.current.Add(1) - 1
	if err := l.drain(); err != nil {
		return err
	}
	if !l.whole() {
		ended = l.durable.Load()
	}
	if next == 0 {
		next = l.syncs.token
	}
	if err := l.number(next, ended); err != nil {
		return err
	}
	l.syncs.token = next
	l.durable.Store(ended)
	return nil
}

// number makes the filter durable with the number of an epoch.
func (l *log) number(t token, epoch uint64) error {
	return l.filter.SyncAtFunc(func(uint64) uint64 { return pack(t, epoch) })
}

// readLog puts what the filter lacks of the log into it, and remembers the epochs of the log. More
// does no harm, so it need not know yet what of the log the store reads, nor whether the filter is
// that of the store.
func (l *log) readLog(readOnly bool) error {
	at, from := unpack(l.filter.DurableSeq())
	if at == 0 || !ofGuard(l.filter) {
		return errOther
	}
	l.covered = from
	behind := false
	if err := l.store.Log(func(t LoggedTx) error {
		for _, e := range t.Set {
			if len(e.Key) == 1 && e.Key[0] == keyEpoch {
				e := decodeEpoch(e.Value)
				e.file = t.File
				l.epochs = append(l.epochs, e)
				behind = behind || e.number > from
			}
		}
		if !behind {
			return nil
		}
		for _, key := range t.Puts {
			if l.covers(key) {
				l.batch = append(l.batch, l.filter.Hash(key))
			}
		}
		if len(l.batch) < mostIncoming {
			return nil
		}
		return l.insertBatch(readOnly)
	}); err != nil {
		return err
	}
	return l.insertBatch(readOnly)
}

func (l *log) insertBatch(readOnly bool) (err error) {
	left := l.batch
	if !readOnly {
		left, _, err = insertUnique(l.filter, l.batch)
	}
	l.left = append(l.left, left...)
	l.read += uint64(len(l.batch))
	l.batch = l.batch[:0]
	switch {
	case err != nil:
		return err
	case len(l.left) > mostOverflow:
		return errTooMany
	case len(l.left) > 0 && !readOnly:
		return errNoRoom
	}
	return nil
}

// replayed says what the store reads of the log: all of it from a file on. An epoch that has had an
// entry after the filter's is in there, or the filter lacks keys that are in tables already.
//
// The filter says that it has these epochs only with the next token. A copy of the store may be put back
// that has more of the last one: it has the same token, and the number of an epoch stands for all of it.
// A kill before that has the filter rebuilt.
func (l *log) replayed(first uint64) {
	_, from := unpack(l.filter.DurableSeq())
	for _, e := range l.epochs {
		if e.file >= first && e.previous <= l.covered && e.least <= from {
			l.covered = max(l.covered, e.number)
		}
	}
	l.epochs = nil
}

// begin begins an epoch after those that the filter covers.
func (l *log) begin() {
	l.syncs.token, _ = unpack(l.filter.DurableSeq())
	l.current.Store(l.covered + 1)
	l.entered.Store(l.covered)
	l.durable.Store(l.covered)
}

// unlogged makes the keys of all transactions that are prepared durable in the filter.
func (l *log) unlogged() error {
	l.enters.Lock()
	defer l.enters.Unlock()
	least := l.current.Load()
	if err := l.sync(0); err != nil {
		return err
	}
	e := epoch{number: l.current.Load(), previous: l.entered.Load(), least: least}
	if err := l.store.Write(Changes{Set: []Entry{e.entry()}}); err != nil {
		return err
	}
	l.entered.Store(e.number)
	l.enters.least = least
	return nil
}
