// Package guardtest has the tests that the guards of all engines pass. The tests of an engine give an
// [Engine], call [Main], and run [Model], [Kill], [Files] and the others. What only one engine has, such
// as merges or buckets, its adapter does in [DB.Step], and tests of its own look at. The package is for
// tests alone.
//
// All tests run with both ways to delete, and look for hidden keys (C9): such as a store has, and its
// guard says are absent.
package guardtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// An Engine opens guarded stores of one kind.
type Engine struct {
	// Open opens the store in a directory, or makes one. It need not make commits durable.
	Open func(dir string, o *guard.Options, readOnly bool) (DB, error)
	// Filter is the name of the filter in the directory of a store.
	Filter string
	// Outbox says that what a filter lacks is in an outbox with deletes: Rebuild, too.
	Outbox bool
	// Revives says that deleted keys may come back, and others go, since the engine does so.
	Revives bool
}

// A DB is an open store with its guard. Keys are printable, and of the form "name/name".
type DB interface {
	Guard() *guard.Guard
	GuardStats() guard.Stats
	Close() error
	// Get is a single lookup. The value is nil if there is no such key.
	Get(key string) (value []byte, err error)
	// Reader begins to read the store as it is now.
	Reader() (Reader, error)
	// Do does a transaction, in one of the ways that the engine has. If work returns an error, nothing
	// has happened, and Do returns this error, or ErrNotDone.
	Do(r *rand.Rand, work func(tx Tx) error) error
	// Step does something of the engine's own with the keys of a worker, and says in w.Has what is
	// there then.
	Step(w *Worker) error
	// Copy copies the files of the store that a kill would leave now to a new directory, and the
	// filter. No transaction is under way.
	Copy(to string) error
}

// A Reader reads a store as it was at an instant.
type Reader interface {
	// Get is a lookup by the guard; see [DB].
	Get(key string) (value []byte, err error)
	// Stored is a lookup past the guard.
	Stored(key string) (there bool, err error)
	// Keys returns the keys of the store, read past the guard, without those of the guard.
	Keys() (keys []string, err error)
	Close() error
}

// A Tx is a transaction of the program, which sees its own writes.
type Tx interface {
	Changes
	Get(key string) (value []byte, err error)
}

// Changes are what a transaction, or a batch of writes, can do to keys.
type Changes interface {
	Set(key, value string) error
	Delete(key string) error
}

// ErrNotDone is the error of a transaction that the engine has not done, as it may: nothing has
// happened.
var ErrNotDone = errors.New("not done")

var modes = []guard.DeleteMode{guard.Exact, guard.Rebuild}

// options are those of a guard that does all things often.
func options(deletes guard.DeleteMode) *guard.Options {
	return &guard.Options{Capacity: 1000, Deletes: deletes, CommitInterval: 5 * time.Millisecond}
}

// quiet are those of a guard that does nothing by itself while a test lasts, but a rebuild that is due.
func quiet(deletes guard.DeleteMode) *guard.Options {
	return &guard.Options{Capacity: 10_000, Deletes: deletes, CommitInterval: time.Hour}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (e Engine) mustOpen(tb testing.TB, dir string, o *guard.Options) DB {
	tb.Helper()
	d, err := e.Open(dir, o, false)
	must(tb, err)
	return d
}

// random returns a source, and says how to get it again.
func random(t *testing.T) *rand.Rand {
	seed := *seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-modelseed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// fork returns a source for another goroutine.
func fork(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), 0)) }

// number returns the key of a number.
func number(i int) string { return fmt.Sprintf("k/%08d", i) }

// set puts the keys of the numbers from from up to to.
func set(tb testing.TB, d DB, from, to int) {
	tb.Helper()
	must(tb, change(d, from, to, func(tx Tx, key string) error { return tx.Set(key, "v") }))
}

// remove deletes them.
func remove(tb testing.TB, d DB, from, to int) {
	tb.Helper()
	must(tb, change(d, from, to, Tx.Delete))
}

func change(d DB, from, to int, do func(tx Tx, key string) error) error {
	r := rand.New(rand.NewPCG(uint64(from), uint64(to)))
	for from < to {
		next := min(to, from+250)
		err := d.Do(r, func(tx Tx) error {
			for i := from; i < next; i++ {
				if err := do(tx, number(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == ErrNotDone {
			continue
		}
		if err != nil {
			return err
		}
		from = next
	}
	return nil
}

// hidden returns an error if a reader has a key that its guard hides, and how many keys it has.
func hidden(d DB) (keys int, err error) {
	r, err := d.Reader()
	if err != nil {
		return 0, err
	}
	keys, err = hiddenIn(d, r)
	return keys, errors.Join(err, r.Close())
}

func hiddenIn(d DB, r Reader) (int, error) {
	keys, err := r.Keys()
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		if err := compare(d, r, key); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// compare returns an error if a key is hidden.
func compare(d DB, r Reader, key string) error {
	value, err := r.Get(key)
	if err != nil || value != nil {
		return err
	}
	there, err := r.Stored(key) // after Get: it may expire meanwhile
	if err == nil && there {
		err = fmt.Errorf("key %q is hidden; %+v", key, d.GuardStats())
	}
	return err
}

// mustHideNone checks that no key is hidden while nobody writes, neither from a reader nor from single
// lookups. It returns how many keys there are.
func mustHideNone(tb testing.TB, d DB) int {
	tb.Helper()
	r, err := d.Reader()
	must(tb, err)
	n, err := hiddenIn(d, r)
	must(tb, err)
	keys, err := r.Keys()
	must(tb, errors.Join(err, r.Close()))
	for _, key := range keys {
		value, err := d.Get(key)
		must(tb, err)
		if value != nil {
			continue
		}
		r, err := d.Reader()
		must(tb, err)
		if there, err := r.Stored(key); there || err != nil { // it may have expired
			tb.Fatalf("key %q is hidden from a single lookup: %v; %+v", key, err, d.GuardStats())
		}
		must(tb, r.Close())
	}
	return n
}

// eventually waits until the statistics are as they should be.
func eventually(tb testing.TB, d DB, what string, holds func(s guard.Stats) bool) {
	tb.Helper()
	for limit := time.Now().Add(2 * time.Minute); !holds(d.GuardStats()); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			tb.Fatalf("%s: never: %+v", what, d.GuardStats())
		}
	}
}

func serving(s guard.Stats) bool { return s.State == "serving" }

// mustServe checks that a store that was closed in order is served by its filter when it is opened.
func (e Engine) mustServe(tb testing.TB, dir string, o *guard.Options) DB {
	tb.Helper()
	d := e.mustOpen(tb, dir, o)
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
		tb.Errorf("opened again: %+v", s)
	}
	mustHideNone(tb, d)
	return d
}

func rebuild(tb testing.TB, d DB) {
	tb.Helper()
	must(tb, d.Guard().Rebuild(context.Background()))
}

// CopyDir copies the files of a directory to a new one, but not those in skip. If one goes meanwhile,
// the error is fs.ErrNotExist.
func CopyDir(to, from string, skip ...string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, name := range skip {
			if e.Name() == name {
				return nil
			}
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}
