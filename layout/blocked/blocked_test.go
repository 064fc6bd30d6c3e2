package blocked

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestCheckLines finds every bit that cannot be set in a line (F10).
func TestCheckLines(t *testing.T) {
	layouttest.Each(t, 3, func(t *testing.T, tab layout.Table) {
		unusable := 0
		for bit := range 3 * 512 {
			region := make([]uint64, 24)
			region[bit/64] = 1 << (bit % 64)
			items, line, err := tab.CheckLines(region, 0, 3)
			inWord := bit % 64
			used := tab.Params().FingerprintBits * tab.Params().BucketSize
			switch {
			case inWord < used:
				if items != 1 || err != nil {
					t.Fatalf("bit %d: %d items, %v", bit, items, err)
				}
			case inWord < 60:
				unusable++
				if err == nil || line != uint64(bit/512) {
					t.Fatalf("bit %d: line %d, %v", bit, line, err)
				}
			default:
				if items != 0 || err != nil {
					t.Fatalf("bit %d: %d items, %v", bit, items, err)
				}
			}
		}
		if p := tab.Params(); unusable != 24*(60-p.FingerprintBits*p.BucketSize) {
			t.Errorf("%d unusable bits", unusable)
		}
	})
}
