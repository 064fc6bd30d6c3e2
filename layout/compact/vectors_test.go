package compact

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestVectorsAreLines: what a kernel loads at once is in one line of the cache.
func TestVectorsAreLines(t *testing.T) {
	layouttest.InOneCacheLine(t, func() any { return new(slotVectors) }, "from", "shifts", "values")
}
