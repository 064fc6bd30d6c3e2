package blocked

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestVectorsAreLines: what a kernel loads at once is in one line of the cache.
func TestVectorsAreLines(t *testing.T) {
	layouttest.InOneCacheLine(t, func() any { return new(direct) }, "ones2", "lanes2", "highs2")
	layouttest.InOneCacheLine(t, func() any { return new(table) }, "ones2", "lanes2", "highs2")
}
