// Package sqlite is an example: it puts a guard in front of a table of SQLite, as you would for a store
// without a guard package. It passes the tests of the other guards.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

const name, filterName = "store.db", "store.db.mmf" // in the directory of a store

// A table is a table of SQLite with a guard in front of it.
type table struct {
	db    *sql.DB
	guard *guard.Guard
}

func open(dir string, o *guard.Options) (*table, error) {
	// A commit is durable when it returns, and readers do not wait for writers.
	db, err := sql.Open("sqlite", filepath.Join(dir, name)+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	for _, s := range []string{
		"CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
		"CREATE TABLE IF NOT EXISTS guard_entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
	} {
		if _, err := db.Exec(s); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	t := &table{db: db}
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	o = o.WithDefaults(filepath.Join(dir, filterName), guard.Exact)
	o.Narrow(info.Mode()) // nobody may read the filter who may not read the store
	if t.guard, err = guard.Open(t, o); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return t, nil
}

func (t *table) close() error { return errors.Join(t.guard.Close(), t.db.Close()) }

// update puts or deletes keys in one transaction. A nil value is a delete.
func (t *table) update(keys, values [][]byte) error {
	g := t.guard.Begin()
	for i, key := range keys {
		if values[i] != nil {
			g.Put(key)
		} else {
			g.Delete(key)
		}
	}
	changes, outcome := g.Prepare(), guard.Unknown
	defer func() { g.Done(outcome) }()
	tx, err := t.db.Begin()
	if err != nil {
		outcome = guard.Aborted
		return err
	}
	for i, key := range keys {
		if values[i] != nil {
			_, err = tx.Exec("INSERT OR REPLACE INTO pairs VALUES (?, ?)", key, values[i])
		} else {
			_, err = tx.Exec("DELETE FROM pairs WHERE key = ?", key)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = change(tx, changes)
	}
	if err != nil {
		if tx.Rollback() == nil {
			outcome = guard.Aborted
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	outcome = guard.Committed
	return nil
}

func (t *table) get(key []byte) (value []byte, err error) {
	if t.guard.Absent(key) {
		return nil, sql.ErrNoRows
	}
	err = t.db.QueryRow("SELECT value FROM pairs WHERE key = ?", key).Scan(&value)
	if err == nil || err == sql.ErrNoRows {
		t.guard.Found(key, err == nil)
	}
	return value, err
}

// A reader reads the table as it is when begin is called.
type reader struct {
	table *table
	view  guard.View // taken just before tx begins
	tx    *sql.Tx
}

func (t *table) begin() (*reader, error) {
	view := t.guard.View()
	tx, err := t.snapshot()
	return &reader{t, view, tx}, err
}

func (r *reader) get(key []byte) (value []byte, err error) {
	if r.table.guard.AbsentIn(r.view, key) {
		return nil, sql.ErrNoRows
	}
	err = r.tx.QueryRow("SELECT value FROM pairs WHERE key = ?", key).Scan(&value)
	if err == nil || err == sql.ErrNoRows {
		r.table.guard.FoundIn(r.view, key, err == nil)
	}
	return value, err
}

// snapshot begins a read transaction. The query fixes its instant; BEGIN alone would not.
func (t *table) snapshot() (*sql.Tx, error) {
	tx, err := t.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM (SELECT 1 FROM pairs LIMIT 1)").Scan(&n); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

// The rest of this file makes a table a guard.Store.

// change makes changes to the guard's entries in a transaction.
func change(tx *sql.Tx, c guard.Changes) error {
	for _, r := range c.Remove {
		if _, err := tx.Exec("DELETE FROM guard_entries WHERE key >= ? AND key < ?", r.From, r.To); err != nil {
			return err
		}
	}
	for _, e := range c.Set {
		if _, err := tx.Exec("INSERT OR REPLACE INTO guard_entries VALUES (?, ?)", e.Key, e.Value); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) Write(c guard.Changes) error {
	tx, err := t.db.Begin()
	if err != nil {
		return err
	}
	if err := change(tx, c); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (t *table) Entries() (entries []guard.Entry, err error) {
	rows, err := t.db.Query("SELECT key, value FROM guard_entries ORDER BY key")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e guard.Entry
		if err := rows.Scan(&e.Key, &e.Value); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

func (t *table) Snapshot() (guard.Snapshot, error) {
	tx, err := t.snapshot()
	if err != nil {
		return guard.Snapshot{}, err
	}
	return guard.Snapshot{
		Keys: func(yield func([]byte, error) bool) {
			rows, err := tx.Query("SELECT key FROM pairs")
			if err != nil {
				yield(nil, err)
				return
			}
			defer rows.Close()
			var key sql.RawBytes
			for rows.Next() {
				if err := rows.Scan(&key); err != nil {
					yield(nil, err)
					return
				}
				if !yield(key, nil) {
					return
				}
			}
			if err := rows.Err(); err != nil {
				yield(nil, err)
			}
		},
		Close: tx.Rollback,
	}, nil
}

func (t *table) Has(key []byte) (bool, error) {
	var one int
	err := t.db.QueryRow("SELECT 1 FROM pairs WHERE key = ?", key).Scan(&one)
	if err == sql.ErrNoRows {
		return false, nil
	}
	return err == nil, err
}
