package badgerguard

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
)

// A WriteBatch is a badger.WriteBatch of a DB: it commits its writes in as many
// transactions as they need.
type WriteBatch struct {
	sync.Mutex
	db       *DB
	txn      *Txn
	throttle *y.Throttle
	err      atomic.Pointer[error]
	finished bool
	count    int64 // entries in the transaction, at most
	size     int64 // bytes that Badger counts for them, at most
}

// defaultPending is how many transactions of a batch may be under way.
const defaultPending = 16

// NewWriteBatch is badger.DB.NewWriteBatch.
func (d *DB) NewWriteBatch() *WriteBatch {
	return &WriteBatch{db: d, txn: d.NewTransaction(true), throttle: y.NewThrottle(defaultPending)}
}

// NewWriteBatchAt is refused: it is for managed mode.
func (d *DB) NewWriteBatchAt(uint64) (*WriteBatch, error) { return nil, ErrNotFollowed }

// NewManagedWriteBatch is refused: it is for managed mode.
func (d *DB) NewManagedWriteBatch() (*WriteBatch, error) { return nil, ErrNotFollowed }

// SetMaxPendingTxns is badger.WriteBatch.SetMaxPendingTxns.
func (b *WriteBatch) SetMaxPendingTxns(n int) { b.throttle = y.NewThrottle(n) }

// Cancel is badger.WriteBatch.Cancel.
func (b *WriteBatch) Cancel() {
	b.Lock()
	defer b.Unlock()
	b.finished = true
	if err := b.throttle.Finish(); err != nil {
		if l := b.db.options.Logger; l != nil {
			l.Errorf("WriteBatch.Cancel error while finishing: %v", err)
		}
	}
	b.txn.Discard()
}

// Set is badger.WriteBatch.Set.
func (b *WriteBatch) Set(key, value []byte) error { return b.SetEntry(badger.NewEntry(key, value)) }

// SetEntry is badger.WriteBatch.SetEntry.
func (b *WriteBatch) SetEntry(e *badger.Entry) error {
	b.Lock()
	defer b.Unlock()
	return b.write(len(e.Key)+len(e.Value), func() error { return b.txn.SetEntry(e) })
}

// Delete is badger.WriteBatch.Delete.
func (b *WriteBatch) Delete(key []byte) error {
	b.Lock()
	defer b.Unlock()
	return b.write(len(key), func() error { return b.txn.Delete(key) })
}

// write does one write, of size bytes.
func (b *WriteBatch) write(size int, do func() error) error {
	if b.isFull(size) {
		if err := b.commit(); err != nil {
			return err
		}
	}
	err := do()
	if errors.Is(err, badger.ErrTxnTooBig) {
		if err := b.commit(); err != nil {
			return err
		}
		if err = do(); err != nil {
			b.fail(err)
		}
	}
	if err == nil {
		b.count++
		b.size += int64(size) + perEntry
	}
	return err
}

// Upper bounds for the bytes that Badger counts for an entry besides its key and value, and for the
// number and the bytes of the guard's entries besides 8 bytes a key.
const (
	perEntry    = 32
	guardCount  = 8
	guardsBytes = 4096
)

// isFull reports whether there may be no room for the entries of the guard after one more write. In
// that case they would be committed on their own.
func (b *WriteBatch) isFull(size int) bool {
	if b.count == 0 {
		return false
	}
	hashes := 8 * (b.count + 1)
	count := b.count + hashes/int64(b.db.store.chunk) + guardCount
	bytes := b.size + int64(size) + hashes + hashes/int64(b.db.store.chunk)*perEntry + guardsBytes
	return count >= b.db.MaxBatchCount() || bytes >= b.db.MaxBatchSize()
}

func (b *WriteBatch) commit() error {
	if err := b.Error(); err != nil {
		return err
	}
	if b.finished {
		return y.ErrCommitAfterFinish
	}
	if err := b.throttle.Do(); err != nil {
		b.fail(err)
		return err
	}
	b.txn.CommitWith(func(err error) {
		defer b.throttle.Done(err)
		if err != nil {
			b.fail(err)
		}
	})
	b.txn, b.count, b.size = b.db.NewTransaction(true), 0, 0
	return b.Error()
}

// Flush is badger.WriteBatch.Flush.
func (b *WriteBatch) Flush() error {
	b.Lock()
	err := b.commit()
	if err != nil {
		b.Unlock()
		return err
	}
	b.finished = true
	b.txn.Discard()
	b.Unlock()
	if err := b.throttle.Finish(); err != nil {
		if b.Error() != nil {
			return fmt.Errorf("wb.err: %w err: %w", b.Error(), err)
		}
		return err
	}
	return b.Error()
}

// Error is badger.WriteBatch.Error.
func (b *WriteBatch) Error() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}

// fail keeps the first error. Nothing is committed after it.
func (b *WriteBatch) fail(err error) { b.err.CompareAndSwap(nil, &err) }

// Write is refused: its keys come with versions of their own.
func (b *WriteBatch) Write(*z.Buffer) error { return ErrNotFollowed }

// WriteList is refused: its keys come with versions of their own.
func (b *WriteBatch) WriteList(*badger.KVList) error { return ErrNotFollowed }

// SetEntryAt is refused: it is for managed mode.
func (b *WriteBatch) SetEntryAt(*badger.Entry, uint64) error { return ErrNotFollowed }

// DeleteAt is refused: it is for managed mode.
func (b *WriteBatch) DeleteAt([]byte, uint64) error { return ErrNotFollowed }
