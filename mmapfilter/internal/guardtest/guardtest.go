// Package guardtest has the tests that the guards of all engines pass. The tests of an engine define an
// [Engine], call [Main], and run [Model], [Kill], [Files] and the other tests. Features that only one
// engine has, such as merges or buckets, are used in [DB.Step], and have tests in the package of the
// engine. This package is only for tests.
//
// All tests run with both ways to delete, and look for hidden keys (C9): keys that a store has, but
// that its guard says are absent.
package guardtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// An Engine opens guarded stores of one kind.
type Engine struct {
	// Open opens the store in a directory, or creates one. It need not make commits durable.
	Open func(dir string, o *guard.Options, readOnly bool) (DB, error)
	// Swap replaces the owner in a store, which no guard has open, by a value of the program, and
	// returns what was there.
	Swap func(dir, value string) (was string, err error)
	// Unguarded opens a store without a guard, as an older program does, puts keys, and closes the
	// store.
	Unguarded func(dir string, keys []string) error
	// Filter is the name of the filter in the directory of a store.
	Filter string
	// Outbox says that the guard has an outbox even with guard.Rebuild.
	Outbox bool
	// Revives says that the engine itself may bring back deleted keys and remove other keys.
	Revives bool
}

// Lookups are the lookups that go through the guard.
type Lookups interface {
	// Get returns the value of a key, or nil if there is no such key.
	Get(key string) (value []byte, err error)
	// Has reports whether there is a key.
	Has(key string) (there bool, err error)
}

// A DB is an open store with its guard. Keys are printable, and of the form "name/name".
type DB interface {
	Guard() *guard.Guard
	GuardStats() guard.Stats
	// Close closes the store. A second call does nothing.
	Close() error
	Lookups
	// AbsentBatch says for each key whether the guard knows that it is not there.
	AbsentBatch(keys []string) (absent []bool)
	// Reader begins to read the store as it is now.
	Reader() (Reader, error)
	// Do does a transaction, in one of the ways that the engine has. If work returns an error, nothing
	// has happened, and Do returns this error, or ErrNotDone.
	Do(r *rand.Rand, work func(tx Tx) error) error
	// Step does something that only this engine can do with the keys of a worker, and sets w.Has
	// to the keys that the store has afterwards.
	Step(w *Worker) error
	// Copy copies the files that a kill would leave now, of the store and of the filter, to a
	// new directory. No transaction is under way.
	Copy(to string) error
}

// A Reader reads a store as it was at an instant.
type Reader interface {
	Lookups
	// Stored looks up a key in the store itself, without the guard.
	Stored(key string) (there bool, err error)
	// Keys returns the keys in the store itself, except the guard's own.
	Keys() (keys []string, err error)
	Close() error
}

// A Tx is a transaction of the program, which sees its own writes.
type Tx interface {
	Changes
	Lookups
}

// Changes are what a transaction, or a batch of writes, can do to keys.
type Changes interface {
	Set(key, value string) error
	Delete(key string) error
}

// ErrNotDone is the error of a transaction that the engine has refused, as engines may. Nothing
// has happened.
var ErrNotDone = errors.New("not done")

// Each runs a test with both ways to delete.
func Each(t *testing.T, test func(t *testing.T, deletes guard.DeleteMode)) {
	for _, deletes := range []guard.DeleteMode{guard.Exact, guard.Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) { test(t, deletes) })
	}
}

// Often returns the options of a guard that does everything often.
func Often(deletes guard.DeleteMode) *guard.Options {
	return &guard.Options{Capacity: 1000, Deletes: deletes, CommitInterval: 5 * time.Millisecond}
}

// Quiet returns the options of a guard that does nothing by itself while a test lasts, except a rebuild
// that is due. Its rate is so low that no key is taken for another key, so no test fails by chance.
func Quiet(deletes guard.DeleteMode) *guard.Options {
	return &guard.Options{Capacity: 10_000, FalsePositiveRate: 1e-7, Deletes: deletes, CommitInterval: time.Hour}
}

// Must fails the test if there is an error.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// MustOpen opens a store; see Opened.
func (e Engine) MustOpen(tb testing.TB, dir string, o *guard.Options) DB {
	tb.Helper()
	d, err := e.Open(dir, o, false)
	return Opened(tb, d, err)
}

// Opened returns a store that has been opened. The store is closed when the test ends, unless the test
// has failed, since a reader may then still be open.
func Opened[D DB](tb testing.TB, d D, err error) D {
	tb.Helper()
	Must(tb, err)
	tb.Cleanup(func() {
		if !tb.Failed() {
			Must(tb, d.Close())
		}
	})
	return d
}

// random returns a source of random numbers, and logs how to get the same numbers again.
func random(t *testing.T) *rand.Rand {
	seed := *seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-modelseed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// fork returns a source of random numbers for another goroutine.
func fork(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), 0)) }

// Number returns the key of a number.
func Number(i int) string { return fmt.Sprintf("k/%08d", i) }

// Set puts the keys of the numbers [from, to).
func Set(tb testing.TB, d DB, from, to int) {
	tb.Helper()
	Must(tb, change(d, from, to, func(tx Tx, key string) error { return tx.Set(key, "v") }))
}

// Remove deletes the keys of the numbers [from, to).
func Remove(tb testing.TB, d DB, from, to int) {
	tb.Helper()
	Must(tb, change(d, from, to, Tx.Delete))
}

func change(d DB, from, to int, do func(tx Tx, key string) error) error {
	r := rand.New(rand.NewPCG(uint64(from), uint64(to)))
	for from < to {
		next := min(to, from+250)
		err := d.Do(r, func(tx Tx) error {
			for i := from; i < next; i++ {
				if err := do(tx, Number(i)); err != nil {
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

// Hidden returns an error if a reader has a key that the guard hides. It also returns how many
// keys the reader has.
func Hidden(d DB, r Reader) (int, error) {
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
	has, e := r.Has(key)
	if err = errors.Join(err, e); err != nil || value != nil && has {
		return err
	}
	there, err := r.Stored(key) // after Get and Has, since the key may expire meanwhile
	if err == nil && there {
		err = fmt.Errorf("key %q is hidden; %+v", key, d.GuardStats())
	}
	return err
}

// MustHideNone checks that no key is hidden while nobody writes: not from a reader, not from single
// lookups, and not from one lookup of all keys. It returns how many keys there are.
func MustHideNone(tb testing.TB, d DB) int {
	tb.Helper()
	r, err := d.Reader()
	Must(tb, err)
	n, err := Hidden(d, r)
	Must(tb, err)
	keys, err := r.Keys()
	Must(tb, errors.Join(err, r.Close()))
	absent := d.AbsentBatch(keys)
	for i, key := range keys {
		value, err := d.Get(key)
		Must(tb, err)
		if value != nil && !absent[i] {
			continue
		}
		r, err := d.Reader()
		Must(tb, err)
		if there, err := r.Stored(key); there || err != nil { // it may have expired
			tb.Fatalf("key %q is hidden from a single lookup, or from a lookup of all keys (%t): %v; %+v", key, absent[i], err, d.GuardStats())
		}
		Must(tb, r.Close())
	}
	return n
}

// MustKeep checks that no key is hidden: now, after Guard.Work, and after a rebuild. It returns how many
// keys there are.
func MustKeep(tb testing.TB, d DB) int {
	tb.Helper()
	MustHideNone(tb, d)
	Must(tb, d.Guard().Work())
	MustHideNone(tb, d)
	Rebuild(tb, d)
	return MustHideNone(tb, d)
}

// MustHave checks that the store has the keys of the numbers [from, to), but no other keys of the
// numbers [0, most).
func MustHave(tb testing.TB, d DB, from, to, most int) {
	tb.Helper()
	for i := range most {
		want := i >= from && i < to
		value, err := d.Get(Number(i))
		has, e := d.Has(Number(i))
		if err = errors.Join(err, e); err != nil || (value != nil) != want || has != want {
			tb.Fatalf("key %d: %q, there: %t, %v; %+v", i, value, has, err, d.GuardStats())
		}
	}
}

// MustKnow checks that a key is there or, if it is absent, that the filter knows this.
func MustKnow(tb testing.TB, d DB, key string, there bool) {
	tb.Helper()
	before := d.GuardStats().Skipped
	value, err := d.Get(key)
	has, e := d.Has(key)
	skipped, want := d.GuardStats().Skipped-before, uint64(2)
	if there {
		want = 0
	}
	if err = errors.Join(err, e); err != nil || (value != nil) != there || has != there || skipped != want {
		tb.Fatalf("%q: %q, there: %t, %v, %d skipped; %+v", key, value, has, err, skipped, d.GuardStats())
	}
}

// AbsentBatch calls ask with keys that are strings, and returns the answers.
func AbsentBatch(keys []string, ask func(keys [][]byte, absent []bool)) []bool {
	asked, absent := make([][]byte, len(keys)), make([]bool, len(keys))
	for i, key := range keys {
		asked[i], absent[i] = []byte(key), true
	}
	ask(asked, absent)
	return absent
}

// Eventually waits until holds returns true for the statistics.
func Eventually(tb testing.TB, d DB, what string, holds func(s guard.Stats) bool) {
	tb.Helper()
	for limit := time.Now().Add(2 * time.Minute); !holds(d.GuardStats()); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			tb.Fatalf("%s: never: %+v", what, d.GuardStats())
		}
	}
}

// Serving reports whether the filter answers.
func Serving(s guard.Stats) bool { return s.State == "serving" }

// MustServe opens a store that a guard has closed, and checks that the filter serves at once.
func (e Engine) MustServe(tb testing.TB, dir string, o *guard.Options) DB {
	tb.Helper()
	d := e.MustOpen(tb, dir, o)
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
		tb.Errorf("opened again: %+v", s)
	}
	MustHideNone(tb, d)
	return d
}

// Rebuild rebuilds the filter.
func Rebuild(tb testing.TB, d DB) {
	tb.Helper()
	Must(tb, d.Guard().Rebuild(context.Background()))
}

// CopyDir copies the files of a directory to a new one, except files with names in skip. It begins
// again if a file is removed meanwhile.
func CopyDir(to, from string, skip ...string) error {
	for {
		err := copyDir(to, from, skip)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
}

func copyDir(to, from string, skip []string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || slices.Contains(skip, e.Name()) {
			return err
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
