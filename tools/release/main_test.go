package main

import (
	"errors"
	"io"
	"strings"
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

// TestFlags checks what is refused before anything is read.
func TestFlags(t *testing.T) {
	for args, says := range map[string]string{
		"-tag -api":            "-api and -tag were given",
		"-proxy a -systems b":  "-proxy and -systems were given",
		"-o a -proxy b":        "-o and -proxy were given",
		"-systems linux/amd64": "-systems needs -o",
		"-tag now":             `"now" is not a flag`,
		"-proxy=":              "-proxy has no value",
	} {
		if err := release(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", args, err, says)
		}
	}
}
