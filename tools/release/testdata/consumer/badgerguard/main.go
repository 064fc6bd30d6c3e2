package main

import (
	"fmt"
	"log"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/badgerguard"
)

func main() {
	db, err := badgerguard.Open(badger.DefaultOptions("store").WithLogger(nil), nil) // was: badger.Open(…)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(txn *badgerguard.Txn) error { // was: *badger.Txn
		return txn.Set([]byte("apple"), []byte("red"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(txn *badgerguard.Txn) error {
		apple, err := txn.Get([]byte("apple"))
		if err != nil {
			return err
		}
		value, err := apple.ValueCopy(nil)
		fmt.Println("apple is", string(value))
		_, missing := txn.Get([]byte("potato"))
		fmt.Println("potato:", missing)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the store was not asked for", db.GuardStats().Skipped, "key")
}
