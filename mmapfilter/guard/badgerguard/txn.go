package badgerguard

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A Txn is a badger.Txn of a DB. Methods that are not listed here are those of the badger.Txn.
type Txn struct {
	*badger.Txn
	db        *DB
	view      guard.View
	update    bool
	discarded bool
	changes   []change
	touched   map[string]struct{} // keys of changes, if Get needs them
}

// A change is a write or a delete of a key. Badger reads the bytes of the key only at the commit, and
// so does the guard.
type change struct {
	set *badger.Entry // or nil
	key []byte        // a deleted key
}

// NewTransaction is badger.DB.NewTransaction.
func (d *DB) NewTransaction(update bool) *Txn {
	t := &Txn{db: d, view: d.guard.View(), update: update && !d.options.ReadOnly}
	t.Txn = d.DB.NewTransaction(update)
	return t
}

// NewTransactionAt is refused: it is for managed mode.
func (d *DB) NewTransactionAt(uint64, bool) (*Txn, error) { return nil, ErrNotFollowed }

// View is badger.DB.View.
func (d *DB) View(fn func(txn *Txn) error) error {
	if d.DB.IsClosed() {
		return badger.ErrDBClosed
	}
	t := d.NewTransaction(false)
	defer t.Discard()
	return fn(t)
}

// Update is badger.DB.Update.
func (d *DB) Update(fn func(txn *Txn) error) error {
	if d.DB.IsClosed() {
		return badger.ErrDBClosed
	}
	t := d.NewTransaction(true)
	defer t.Discard()
	if err := fn(t); err != nil {
		return err
	}
	return t.Commit()
}

// Get is badger.Txn.Get. It does not ask the store if the filter knows that the key is absent, unless
// Badger must see the read: a transaction that may write and has read the key must fail with
// badger.ErrConflict if another transaction creates the key.
func (t *Txn) Get(key []byte) (*badger.Item, error) {
	if t.db.store.reserved(key) && !t.discarded {
		return nil, badger.ErrKeyNotFound
	}
	if !t.filters(key) {
		return t.Txn.Get(key)
	}
	if t.db.guard.AbsentIn(t.view, key) {
		return nil, badger.ErrKeyNotFound
	}
	item, err := t.Txn.Get(key)
	if err == nil || err == badger.ErrKeyNotFound {
		t.db.guard.FoundIn(t.view, key, err == nil)
	}
	return item, err
}

// Has reports whether the store has a key. Like Get, it reads no value from the value log.
func (t *Txn) Has(key []byte) (bool, error) {
	_, err := t.Get(key)
	return found(err)
}

// filters reports whether the filter may answer for a key.
func (t *Txn) filters(key []byte) bool {
	if t.discarded || !t.db.filters(key) {
		return false
	}
	if !t.update {
		return true
	}
	if t.db.options.DetectConflicts {
		return false
	}
	_, touched := t.touched[string(key)]
	return !touched
}

// Set is badger.Txn.Set. As in Badger, the key and the value must not be modified until the transaction
// ends.
func (t *Txn) Set(key, value []byte) error { return t.SetEntry(badger.NewEntry(key, value)) }

// SetEntry is badger.Txn.SetEntry.
func (t *Txn) SetEntry(e *badger.Entry) error {
	if t.db.store.reserved(e.Key) {
		return ErrReserved
	}
	if err := t.Txn.SetEntry(e); err != nil {
		return err
	}
	t.changed(e.Key, change{set: e})
	return nil
}

// Delete is badger.Txn.Delete.
func (t *Txn) Delete(key []byte) error {
	if t.db.store.reserved(key) {
		return ErrReserved
	}
	if err := t.Txn.Delete(key); err != nil {
		return err
	}
	t.changed(key, change{key: key})
	return nil
}

func (t *Txn) changed(key []byte, c change) {
	t.changes = append(t.changes, c)
	if t.db.options.DetectConflicts {
		return // then Get asks the store in any case
	}
	if t.touched == nil {
		t.touched = map[string]struct{}{}
	}
	t.touched[string(key)] = struct{}{}
}

// Discard is badger.Txn.Discard.
func (t *Txn) Discard() {
	t.discarded = true
	t.Txn.Discard()
}

// Commit is badger.Txn.Commit.
func (t *Txn) Commit() error {
	tx, err := t.prepare()
	if err != nil {
		return err
	}
	defer func() { t.done(tx, err) }()
	err = errPanic
	err = t.Txn.Commit()
	return err
}

// errPanic stands for the result of a commit that has panicked.
var errPanic = errors.New("badgerguard: the commit did not return")

// CommitWith is badger.Txn.CommitWith. The keys are put into the filter before it returns.
func (t *Txn) CommitWith(callback func(error)) {
	if callback == nil {
		panic("Nil callback provided to CommitWith")
	}
	tx, err := t.prepare()
	if err != nil {
		go callback(err)
		return
	}
	t.Txn.CommitWith(func(err error) {
		t.done(tx, err)
		callback(err)
	})
}

// CommitAt is refused: it is for managed mode.
func (t *Txn) CommitAt(uint64, func(error)) error { return ErrNotFollowed }

// prepare puts the keys of a transaction into the filter, and adds the entries of the guard. If the
// transaction writes nothing, prepare returns nil.
func (t *Txn) prepare() (*guard.Tx, error) {
	if len(t.changes) == 0 || t.discarded {
		t.discarded = true
		return nil, nil
	}
	t.discarded = true
	tx := t.db.guard.Begin()
	for _, change := range t.changes {
		if change.set == nil {
			tx.Delete(change.key)
			continue
		}
		tx.Put(change.set.Key)
		if change.set.ExpiresAt != 0 {
			tx.DeleteUnknown()
		}
	}
	if t.db.store.exact {
		t.db.commits.RLock()
	}
	if err := t.db.store.add(t.Txn, tx.Prepare().Set); err != nil {
		t.end(tx, guard.Aborted)
		t.Txn.Discard()
		return nil, err
	}
	return tx, nil
}

// done tells tx how a commit ended that returned err, unless tx is nil.
func (t *Txn) done(tx *guard.Tx, err error) {
	o := guard.Unknown
	switch {
	case tx == nil:
		return
	case err == nil:
		o = guard.Committed
	case errors.Is(err, badger.ErrConflict), errors.Is(err, badger.ErrBlockedWrites), errors.Is(err, badger.ErrTxnTooBig):
		o = guard.Aborted // Badger has written nothing
	}
	t.end(tx, o)
}

// end tells tx how its commit ended, and lets drops go on.
func (t *Txn) end(tx *guard.Tx, o guard.Outcome) {
	tx.Done(o)
	if t.db.store.exact {
		t.db.commits.RUnlock()
	}
}
