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
	// took is called after hashes were put into the filter, which had known of them already. The
	// hashes unplaced found no room.
	took func(known uint64, unplaced []uint64)
	// whole reports whether the filter has all hashes that it was given.
	whole func() bool

	incoming incoming
	current  atomic.Uint64 // epoch
	entered  atomic.Uint64 // the last epoch whose entry is in the store
	durable  atomic.Uint64 // the last one whose number the filter has durably
	enters   struct {
		sync.Mutex
		least uint64 // of the entries to come
	}
	syncs struct {
		sync.Mutex
		token token
	}
	many chan struct{} // it is time to drain

	// For Open: what was in the log before it.
	epochs   []epoch
	reached  uint64   // the filter has the keys of all transactions up to this epoch
	batch    []uint64 // hashes
	unplaced []uint64 // hashes that found no room in the filter
	read     uint64   // how many hashes have been in a batch
}

func newLog(store Logged) *log {
	l := &log{store: store, many: make(chan struct{}, 1)}
	l.current.Store(1)
	return l
}

// put puts hashes of a transaction on their way into the filter, and then has the epoch enter the log.
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

// take puts hashes into the filter. At the first that finds no room it gives up: a failed insert is
// slow. All hashes from there on overflow, also those that the filter has, because a rebuild under
// way is told only of inserts.
func (l *log) take(hashes []uint64) error {
	n, added, err := l.filter.InsertUniqueHashes(hashes)
	l.took(uint64(n-added), hashes[n:])
	if errors.Is(err, mmapfilter.ErrFull) {
		return nil
	}
	return err
}

// enter puts the entry of the current epoch into the store, unless it is there. A transaction calls it
// when its keys are on their way into the filter, before it is committed.
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

// isDurable reports whether the filter durably has the keys of all transactions in the store.
func (l *log) isDurable() bool { return l.entered.Load() <= l.durable.Load() }

// drain puts the incoming hashes into the filter.
func (l *log) drain() error { return l.incoming.drain(l.take) }

// sync ends the epoch and makes the filter durable, with the token next unless it is 0.
func (l *log) sync(next token) error {
	l.syncs.Lock()
	defer l.syncs.Unlock()
	// A transaction that has read the old number put its keys before that: drain takes them in.
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

// readLog puts the keys of the log that the filter lacks into it, and remembers the epochs. Further
// keys do no harm, so it need not know yet which part of the log the store reads, nor whether the
// filter is that of the store.
func (l *log) readLog(readOnly bool) error {
	at, from := unpack(l.filter.DurableSeq())
	if at == 0 || !ofGuard(l.filter) {
		return errOther
	}
	l.reached = from
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
	unplaced := l.batch
	if !readOnly {
		unplaced, _, err = insertUnique(l.filter, l.batch)
	}
	l.unplaced = append(l.unplaced, unplaced...)
	l.read += uint64(len(l.batch))
	l.batch = l.batch[:0]
	switch {
	case err != nil:
		return err
	case len(l.unplaced) > mostOverflow:
		return errTooMany
	case len(l.unplaced) > 0 && !readOnly:
		return errNoRoom
	}
	return nil
}

// replayed says that the store reads the log from the file first on. Every epoch after the filter's
// that has an entry must have it in that part of the log. Otherwise the store has flushed keys that
// the filter lacks.
//
// The filter gets the number of the last epoch only with the next token. With the same token, a copy
// of the store could be restored that has more transactions of this epoch, whose number stands for all
// of them. After a kill in between, the filter is rebuilt.
func (l *log) replayed(first uint64) {
	_, from := unpack(l.filter.DurableSeq())
	for _, e := range l.epochs {
		if e.file >= first && e.previous <= l.reached && e.least <= from {
			l.reached = max(l.reached, e.number)
		}
	}
	l.epochs = nil
}

// begin begins the epoch after the last one whose keys the filter has.
func (l *log) begin() {
	l.syncs.token, _ = unpack(l.filter.DurableSeq())
	l.current.Store(l.reached + 1)
	l.entered.Store(l.reached)
	l.durable.Store(l.reached)
}

// unlogged makes the keys of all prepared transactions durable in the filter: the log will not have
// them. Later entries say so in least, so that Open does not use an older filter.
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
