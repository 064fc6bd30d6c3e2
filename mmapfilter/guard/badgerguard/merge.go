package badgerguard

import (
	"bytes"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A MergeOperator is a badger.MergeOperator. It writes to the store by itself, so its key stays in the
// filter for as long as the DB is open. Methods that are not listed here are those of the
// badger.MergeOperator.
type MergeOperator struct {
	*badger.MergeOperator // nil if err is not nil
	err                   error
}

// GetMergeOperator is badger.DB.GetMergeOperator. If it fails, Add and Get return the
// error.
func (d *DB) GetMergeOperator(key []byte, f badger.MergeFunc, interval time.Duration) *MergeOperator {
	if err := d.keep(key); err != nil {
		return &MergeOperator{err: err}
	}
	return &MergeOperator{MergeOperator: d.DB.GetMergeOperator(bytes.Clone(key), f, interval)}
}

// keep puts a key into the filter for as long as the DB is open. Badger keeps the slice of the key and
// writes the key again later, so Badger gets a copy.
func (d *DB) keep(key []byte) error {
	if d.store.reserved(key) {
		return ErrReserved
	}
	// The pin comes before the insert, so that a rebuild that begins in between has the key
	// too.
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
	d.store.pin(key, true) // before Done, so that every rebuild has the key
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

// GetSequence is badger.DB.GetSequence. A Sequence writes its key by itself, as a MergeOperator does.
func (d *DB) GetSequence(key []byte, bandwidth uint64) (*badger.Sequence, error) {
	if d.options.ReadOnly {
		return nil, badger.ErrReadOnlyTxn
	}
	if err := d.keep(key); err != nil {
		return nil, err
	}
	return d.DB.GetSequence(bytes.Clone(key), bandwidth)
}
