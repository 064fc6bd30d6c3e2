package main

import (
	"fmt"
	"log"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

func main() {
	o := &mmapfilter.Options{Capacity: 10_000_000, FalsePositiveRate: 0.001}
	f, err := mmapfilter.OpenOrCreate("seen.mmf", o, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	isNew, err := f.InsertUnique([]byte("apple")) // if nil, it survives kill -9
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Sync(); err != nil { // if nil, it survives a power loss
		log.Fatal(err)
	}
	fmt.Println("apple is new:", isNew)                          // true, and false the next time
	fmt.Println("apple may be in:", f.ContainsString("apple"))   // true
	fmt.Println("potato may be in:", f.ContainsString("potato")) // false: certainly not
}
