package main

import (
	"errors"
	"io"
	"testing"
)

// TestCaught checks that only a failure becomes an error.
func TestCaught(t *testing.T) {
	ends := func(f func()) (err error) {
		defer caught(&err)
		f()
		return nil
	}
	if err := ends(func() {}); err != nil {
		t.Error(err)
	}
	if err := ends(func() { check(io.EOF) }); !errors.Is(err, io.EOF) {
		t.Errorf("a failure ends with %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a panic was taken for a failure, or for success")
		}
	}()
	t.Error(ends(func() { panic("another") }))
}
