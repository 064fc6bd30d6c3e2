// Command example puts keys into a Pebble store behind a guard, deletes a part of them, looks up
// keys of which half were never there, and does so again after it has opened the store again. It
// fails if the store says anything else than it should.
//
//	go -C mmapfilter/guard/pebbleguard run ./example -keys 100000
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/pebbleguard"
)

func main() {
	dir := flag.String("dir", "", "the directory of the store; empty: one that is removed at the end")
	n := flag.Int("keys", 20_000, "how many keys")
	flag.Parse()
	if err := run(*dir, *n); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

func run(dir string, n int) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "store"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if err := with(dir, func(db *pebbleguard.DB) error {
		if err := fill(db, n); err != nil {
			return err
		}
		return lookUp(db, n)
	}); err != nil {
		return err
	}
	fmt.Println("\nopened again")
	return with(dir, func(db *pebbleguard.DB) error { return lookUp(db, n) })
}

// with opens the store for do.
func with(dir string, do func(*pebbleguard.DB) error) error {
	db, err := pebbleguard.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: errorsOnly{}}, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// An errorsOnly is a logger of what fails.
type errorsOnly struct{}

func (errorsOnly) Infof(string, ...any)              {}
func (errorsOnly) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (errorsOnly) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func key(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// fill puts n keys, many in a batch, and deletes the first quarter of them, one by one.
func fill(db *pebbleguard.DB, n int) error {
	const many = 1000
	for from := 0; from < n; from += many {
		b := db.NewBatch()
		for i := from; i < min(from+many, n); i++ {
			if err := b.Set(key(i), []byte("value"), nil); err != nil {
				return errors.Join(err, b.Close())
			}
		}
		if err := errors.Join(b.Commit(pebble.NoSync), b.Close()); err != nil {
			return err
		}
	}
	for i := range n / 4 {
		if err := db.Delete(key(i), pebble.NoSync); err != nil {
			return err
		}
	}
	return db.LogData(nil, pebble.Sync) // all of that is durable
}

// lookUp looks up the keys of fill, and as many that were never there.
func lookUp(db *pebbleguard.DB, n int) error {
	for i := range 2 * n {
		value, closer, err := db.Get(key(i))
		there := i >= n/4 && i < n
		switch {
		case err == nil && there && string(value) == "value":
			if err := closer.Close(); err != nil {
				return err
			}
		case err == nil || there || err != pebble.ErrNotFound:
			return fmt.Errorf("key %d: %q, %v", i, value, err)
		}
	}
	show(db.GuardStats())
	return nil
}

func show(s guard.Stats) {
	fmt.Println("lookups         ", s.Lookups)
	fmt.Println("skipped         ", s.Skipped)
	fmt.Println("found           ", s.TruePositives)
	fmt.Println("false positives ", s.FalsePositives)
	fmt.Println("unfiltered      ", s.Unfiltered)
	fmt.Println("state           ", s.State)
	fmt.Println("keys            ", s.Keys, "of", s.Capacity)
}
