package main

import (
	"fmt"
	"log"

	bolt "github.com/mmapfilter/mmapfilter/mmapfilter/guard/bboltguard" // was: bolt "go.etcd.io/bbolt"
)

func main() {
	db, err := bolt.Open("my.db", 0o600, nil, nil) // was: bolt.Open("my.db", 0o600, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bolt.Tx) error {
		fruit, err := tx.CreateBucketIfNotExists([]byte("fruit"))
		if err != nil {
			return err
		}
		return fruit.Put([]byte("apple"), []byte("red"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		fruit := tx.Bucket([]byte("fruit"))
		fmt.Println("apple is", string(fruit.Get([]byte("apple"))))
		fmt.Println("potato:", fruit.Get([]byte("potato")))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the store was not asked for", db.GuardStats().Skipped, "key")
}
