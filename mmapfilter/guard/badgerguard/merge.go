package badgerguard

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A MergeOperator is a badger.MergeOperator. It writes to the store by itself, so its key stays in the
// filter for as long as the DB is open. Methods that are not listed here are those of the
// badger.MergeOperator.
type MergeOperator struct {
	*badger.MergeOperator // nil if there is an error
	err                   error
}

// GetMergeOperator is badger.DB.GetMergeOperator. An error is that of Add and Get.
func (d *DB) GetMergeOperator(key []byte, f badger.MergeFunc, interval time.Duration) *MergeOperator {
	if err := d.keep(key); err != nil {
		return &MergeOperator{err: err}
	}
	return &MergeOperator{MergeOperator: d.DB.GetMergeOperator(key, f, interval)}
}

// keep puts a key into the filter for as long as the DB is open.
func (d *DB) keep(key []byte) error {
	if d.store.reserved(key) {
		return ErrReserved
	}
	// The pin is first, so a rebuild that begins later has the key, too.
	if d.options.ReadOnly || d.store.pin(key, false) {
		return nil
	}
	t := d.guard.Begin()
	t.Put(key)
	c := t.Prepare()
	outcome := guard.Unknown
	defer func() { t.Done(outcome) }()
	if len(c.Set)+len(c.Remove) > 0 {
		if err := d.store.Write(c); err != nil {
			return err
		}
	}
	d.store.pin(key, true) // before the transaction is done: so each rebuild has the key
	outcome = guard.Committed
	return nil
}

// Add is badger.MergeOperator.Add.
func (m *MergeOperator) Add(value []byte) error {
	if m.err != nil {
		return m.err
	}
	return m.MergeOperator.Add(value)
}

// Get is badger.MergeOperator.Get.
func (m *MergeOperator) Get() ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	return m.MergeOperator.Get()
}

// Stop is badger.MergeOperator.Stop.
func (m *MergeOperator) Stop() {
	if m.err == nil {
		m.MergeOperator.Stop()
	}
}

// A Sequence is what a badger.Sequence is. Its lease is written in transactions of the DB.
type Sequence struct {
	db        *DB
	key       []byte
	bandwidth uint64
	mu        struct {
		sync.Mutex
		next, leased uint64
	}
}

// GetSequence is badger.DB.GetSequence.
func (d *DB) GetSequence(key []byte, bandwidth uint64) (*Sequence, error) {
	switch {
	case d.options.ReadOnly:
		return nil, badger.ErrReadOnlyTxn
	case len(key) == 0:
		return nil, badger.ErrEmptyKey
	case bandwidth == 0:
		return nil, badger.ErrZeroBandwidth
	}
	s := &Sequence{db: d, key: slices.Clone(key), bandwidth: bandwidth}
	return s, s.lease()
}

// Next is badger.Sequence.Next.
func (s *Sequence) Next() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.next >= s.mu.leased {
		if err := s.lease(); err != nil {
			return 0, err
		}
	}
	s.mu.next++
	return s.mu.next - 1, nil
}

// Release is badger.Sequence.Release.
func (s *Sequence) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.db.Update(func(txn *Txn) error {
		stored, err := s.stored(txn)
		if err != nil || stored != s.mu.leased {
			return err
		}
		return txn.Set(s.key, binary.BigEndian.AppendUint64(nil, s.mu.next))
	})
	if err == nil {
		s.mu.leased = s.mu.next
	}
	return err
}

// lease leases the next numbers. REQUIRES: s.mu.
func (s *Sequence) lease() error {
	return s.db.Update(func(txn *Txn) error {
		next, err := s.stored(txn)
		if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
			return err
		}
		s.mu.next, s.mu.leased = next, next+s.bandwidth
		return txn.Set(s.key, binary.BigEndian.AppendUint64(nil, s.mu.leased))
	})
}

// stored returns the end of the last lease.
func (s *Sequence) stored(txn *Txn) (n uint64, err error) {
	item, err := txn.Get(s.key)
	if err != nil {
		return 0, err
	}
	err = item.Value(func(value []byte) error {
		n = binary.BigEndian.Uint64(value)
		return nil
	})
	return n, err
}
