package main

import (
	"fmt"
	"log"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/pebbleguard"
)

func main() {
	db, err := pebbleguard.Open("store", &pebble.Options{}, nil) // was: pebble.Open("store", &pebble.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Set([]byte("apple"), []byte("red"), pebble.Sync); err != nil {
		log.Fatal(err)
	}
	value, closer, err := db.Get([]byte("apple"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("apple is", string(value))
	closer.Close()
	_, _, err = db.Get([]byte("potato"))
	fmt.Println("potato:", err)
	fmt.Println("the store was not asked for", db.GuardStats().Skipped, "key")
}
