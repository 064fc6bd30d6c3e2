package badgerguard_test

import (
	"fmt"
	"log"
	"os"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/badgerguard"
)

// A program changes badger.Open to badgerguard.Open, *badger.DB to *badgerguard.DB, and *badger.Txn to
// *badgerguard.Txn.
func Example() {
	dir, err := os.MkdirTemp("", "badgerguard")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := badgerguard.Open(badger.DefaultOptions(dir).WithLogger(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(txn *badgerguard.Txn) error {
		return txn.Set([]byte("here"), []byte("value"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(txn *badgerguard.Txn) error {
		for _, key := range []string{"here", "not here"} {
			_, err := txn.Get([]byte(key))
			fmt.Println(key, err == nil)
			if err != nil && err != badger.ErrKeyNotFound {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.GuardStats().Skipped, "lookup did not reach the store")
	// Output:
	// here true
	// not here false
	// 1 lookup did not reach the store
}
