package main

import (
	"errors"
	"time"
)

// The default size and rate of a filter of uniq --window. It grows to its size by itself.
const (
	windowCapacity = 100_000
	windowRate     = 5e-6
)

// leastWindow is the shortest time after which keys may leave: see mmapfilter.Options.ExpireAfter.
const leastWindow = 10 * time.Second

// lacksHashes says that a filter cannot be used with --window.
func lacksHashes(path string, err error) error {
	return &fileError{path, errors.New(whatOfHashes(path, err) + ", and --window needs the hashes; choose another file")}
}
