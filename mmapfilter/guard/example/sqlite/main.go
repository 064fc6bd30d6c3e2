// Command sqlite puts a guard in front of a table of SQLite: what a program does for a store that no
// package wraps. It fills a table, deletes a part of it, looks up keys of which half were never
// there, and does so again after it has opened the table again. It fails if the table says anything
// else than it should.
//
//	go -C mmapfilter/guard/example/sqlite run . -keys 100000
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A table is a table with a guard in front of it.
type table struct {
	db    *sql.DB
	guard *guard.Guard
}

func open(dir string, capacity uint64) (*table, error) {
	// A commit is durable when it returns, and readers do not wait for writers.
	db, err := sql.Open("sqlite", filepath.Join(dir, "store.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
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
	info, err := os.Stat(filepath.Join(dir, "store.db"))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	o := &guard.Options{Capacity: capacity, Mode: info.Mode().Perm()} // who may not read the store may not read the filter
	if t.guard, err = guard.Open(t, o.WithDefaults(filepath.Join(dir, "store.db.mmf"), guard.Exact)); err != nil {
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

// The rest is the guard.Store.

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

// Snapshot begins a read transaction. A query makes it one of this instant: BEGIN alone does not.
func (t *table) Snapshot() (guard.Snapshot, error) {
	tx, err := t.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return guard.Snapshot{}, err
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM (SELECT 1 FROM pairs LIMIT 1)").Scan(&n); err != nil {
		return guard.Snapshot{}, errors.Join(err, tx.Rollback())
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

func main() {
	dir := flag.String("dir", "", "the directory of the store; empty: one that is removed at the end")
	n := flag.Int("keys", 20_000, "how many keys")
	capacity := flag.Uint64("capacity", 1000, "how many keys the filter is sized for at first; it grows")
	flag.Parse()
	if err := run(*dir, *n, *capacity); err != nil {
		fmt.Fprintln(os.Stderr, "sqlite:", err)
		os.Exit(1)
	}
}

func run(dir string, n int, capacity uint64) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "guard"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if err := with(dir, capacity, func(t *table) error {
		if err := t.fill(0, n, []byte("value")); err != nil {
			return err
		}
		if err := t.fill(0, n/4, nil); err != nil {
			return err
		}
		return t.lookUp(n)
	}); err != nil {
		return err
	}
	fmt.Println("\nopened again")
	return with(dir, capacity, func(t *table) error { return t.lookUp(n) })
}

// with opens the table for do.
func with(dir string, capacity uint64, do func(*table) error) error {
	t, err := open(dir, capacity)
	if err != nil {
		return err
	}
	return errors.Join(do(t), t.close())
}

func key(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// fill puts keys, many in a transaction, or deletes them.
func (t *table) fill(from, to int, value []byte) error {
	const many = 1000
	for i := from; i < to; i += many {
		var keys, values [][]byte
		for j := i; j < min(i+many, to); j++ {
			keys, values = append(keys, key(j)), append(values, value)
		}
		if err := t.update(keys, values); err != nil {
			return err
		}
	}
	return nil
}

// lookUp looks up n keys, of which the first quarter was deleted, and as many that were never there.
func (t *table) lookUp(n int) error {
	for i := range 2 * n {
		value, err := t.get(key(i))
		there := i >= n/4 && i < n
		if there != (err == nil) || there && string(value) != "value" || err != nil && err != sql.ErrNoRows {
			return fmt.Errorf("key %d: %q, %v", i, value, err)
		}
	}
	s := t.guard.Stats()
	fmt.Println("lookups         ", s.Lookups)
	fmt.Println("skipped         ", s.Skipped)
	fmt.Println("found           ", s.TruePositives)
	fmt.Println("false positives ", s.FalsePositives)
	fmt.Println("unfiltered      ", s.Unfiltered)
	fmt.Println("state           ", s.State)
	fmt.Println("keys            ", s.Keys, "of", s.Capacity)
	return nil
}
