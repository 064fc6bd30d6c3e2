package main

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestDescribeState covers states that scripts cannot produce, such as a writer that dies while
// info looks.
func TestDescribeState(t *testing.T) {
	for want, s := range map[string]mmapfilter.Stats{
		"sealed, generation 1":                       {State: "sealed", Generation: 1},
		"clean, its writer is running, generation 2": {State: "clean", Generation: 2, WriterAlive: true},
		"live, its writer is running, generation 3":  {State: "live", Generation: 3, WriterAlive: true},
		"live, its writer has died, generation 4":    {State: "live", Generation: 4},
	} {
		if got := describeState(s); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
