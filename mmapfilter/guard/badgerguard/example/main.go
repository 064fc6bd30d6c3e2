// Command example puts keys into a Badger store behind a guard, deletes a part of them, looks up
// keys of which half were never there, and does so again after it has opened the store again. It
// fails if the store says anything else than it should.
//
//	go -C mmapfilter/guard/badgerguard run ./example -keys 100000
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/badgerguard"
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
	if err := with(dir, func(db *badgerguard.DB) error {
		if err := fill(db, n); err != nil {
			return err
		}
		return lookUp(db, n)
	}); err != nil {
		return err
	}
	fmt.Println("\nopened again")
	return with(dir, func(db *badgerguard.DB) error { return lookUp(db, n) })
}

// with opens the store for do.
func with(dir string, do func(*badgerguard.DB) error) error {
	db, err := badgerguard.Open(badger.DefaultOptions(dir).WithLoggingLevel(badger.WARNING), nil)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

func key(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// fill puts n keys, many in a transaction, and deletes the first quarter of them.
func fill(db *badgerguard.DB, n int) error {
	return inParts(n, func(from, to int) error {
		return db.Update(func(txn *badgerguard.Txn) (err error) {
			for i := from; i < to && err == nil; i++ {
				err = txn.Set(key(i), []byte("value"))
			}
			return err
		})
	}, func(from, to int) error {
		return db.Update(func(txn *badgerguard.Txn) (err error) {
			for i := from; i < min(to, n/4) && err == nil; i++ {
				err = txn.Delete(key(i))
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
func lookUp(db *badgerguard.DB, n int) error {
	if err := inParts(2*n, func(from, to int) error {
		return db.View(func(txn *badgerguard.Txn) error {
			for i := from; i < to; i++ {
				item, err := txn.Get(key(i))
				there := i >= n/4 && i < n
				if there == (err == badger.ErrKeyNotFound) || err != nil && err != badger.ErrKeyNotFound {
					return fmt.Errorf("key %d: %v", i, err)
				}
				if !there {
					continue
				}
				if value, err := item.ValueCopy(nil); err != nil || string(value) != "value" {
					return fmt.Errorf("key %d: %q, %v", i, value, err)
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
