// Command example puts keys into a bbolt store behind a guard, deletes a part of them, looks up keys of
// which half were never there, and does so again after it has opened the store again. It fails if the
// store says anything else than it should.
//
//	go -C mmapfilter/guard/bboltguard run ./example -keys 100000
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/bboltguard"
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
	if err := with(dir, func(db *bboltguard.DB) error {
		if err := fill(db, n); err != nil {
			return err
		}
		return lookUp(db, n)
	}); err != nil {
		return err
	}
	fmt.Println("\nopened again")
	return with(dir, func(db *bboltguard.DB) error { return lookUp(db, n) })
}

// with opens the store for do.
func with(dir string, do func(*bboltguard.DB) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	db, err := bboltguard.Open(filepath.Join(dir, "store.db"), 0o600, nil, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

var bucket = []byte("bucket")

func key(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// fill puts n keys, many in a transaction, and deletes the first quarter of them.
func fill(db *bboltguard.DB, n int) error {
	return inParts(n, func(from, to int) error {
		return db.Update(func(tx *bboltguard.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			for i := from; i < to && err == nil; i++ {
				err = b.Put(key(i), []byte("value"))
			}
			return err
		})
	}, func(from, to int) error {
		return db.Update(func(tx *bboltguard.Tx) (err error) {
			b := tx.Bucket(bucket)
			for i := from; i < min(to, n/4) && err == nil; i++ {
				err = b.Delete(key(i))
			}
			return err
		})
	})
}

// inParts has each of do do some of n keys at a time.
func inParts(n int, do ...func(from, to int) error) error {
	const many = 1000
	for _, do := range do {
		for from := 0; from < n; from += many {
			if err := do(from, min(from+many, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookUp looks up the keys of fill, and as many that were never there. A read transaction sees what was
// there when it began; the filter serves it until keys have left the filter. So this one does not take
// long.
func lookUp(db *bboltguard.DB, n int) error {
	if err := inParts(2*n, func(from, to int) error {
		return db.View(func(tx *bboltguard.Tx) error {
			b := tx.Bucket(bucket)
			for i := from; i < to; i++ {
				value := b.Get(key(i))
				if there := i >= n/4 && i < n; there != (value != nil) || there && string(value) != "value" {
					return fmt.Errorf("key %d: %q", i, value)
				}
			}
			return nil
		})
	}); err != nil {
		return err
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
