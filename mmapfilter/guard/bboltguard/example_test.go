package bboltguard_test

import (
	"fmt"
	"os"
	"path/filepath"

	bolt "github.com/mmapfilter/mmapfilter/mmapfilter/guard/bboltguard"
)

// A program that used bbolt changes the import, here under the same name, and the call of Open.
func Example() {
	dir, err := os.MkdirTemp("", "bboltguard")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	db, err := bolt.Open(filepath.Join(dir, "my.db"), 0o600, nil, nil)
	if err != nil {
		panic(err)
	}
	defer db.Close()

	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("fruit"))
		if err != nil {
			return err
		}
		return b.Put([]byte("apple"), []byte("red"))
	})
	if err != nil {
		panic(err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("fruit"))
		fmt.Printf("apple: %q\n", b.Get([]byte("apple")))
		fmt.Printf("plum: %q\n", b.Get([]byte("plum"))) // the filter knows that it is absent
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("spared the store:", db.GuardStats().Skipped)
	// Output:
	// apple: "red"
	// plum: ""
	// spared the store: 1
}
