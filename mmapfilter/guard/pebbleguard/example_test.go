package pebbleguard_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/pebbleguard"
)

// A program for Pebble opens its store with pebbleguard.Open in place of pebble.Open. The rest of the
// program does not change.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := run(dir); err != nil {
		fmt.Println(err)
	}
	// Output:
	// apple: red
	// pear: pebble: not found
	// keys: apple plum
	// skipped: 1
}

func run(dir string) (err error) {
	db, err := pebbleguard.Open(dir, &pebble.Options{Logger: silent{}}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	if err := db.Set([]byte("apple"), []byte("red"), pebble.Sync); err != nil {
		return err
	}
	batch := db.NewBatch()
	defer batch.Close()
	if err := batch.Set([]byte("plum"), []byte("blue"), nil); err != nil {
		return err
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return err
	}

	value, closer, err := db.Get([]byte("apple"))
	if err != nil {
		return err
	}
	fmt.Printf("apple: %s\n", value)
	if err := closer.Close(); err != nil {
		return err
	}
	_, _, err = db.Get([]byte("pear")) // it does not reach the store
	fmt.Println("pear:", err)

	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	fmt.Print("keys:")
	for ok := it.First(); ok; ok = it.Next() {
		fmt.Printf(" %s", it.Key())
	}
	fmt.Println()
	if err := it.Close(); err != nil {
		return err
	}
	fmt.Println("skipped:", db.GuardStats().Skipped)
	return nil
}

type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
