//go:build !faults

package main

import (
	"bytes"
	"testing"
)

// TestNoMistakes: without the tag there is no flag to make one.
func TestNoMistakes(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run([]string{"-mistake", "removal before copy"}, &out, &errs); status != exitError {
		t.Errorf("exit status %d: %s", status, &errs)
	}
}
