package all_test

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestWithoutPDEP: where PDEP is slow, lookups in Compact run in Go, and KernelOf says so.
func TestWithoutPDEP(t *testing.T) {
	defer func(slow bool) { kernel.PDEPIsSlow = slow }(kernel.PDEPIsSlow)
	kernel.PDEPIsSlow = true
	layouttest.Each(t, 50, func(t *testing.T, tab layout.Table) {
		if tab.Kind() != layout.Compact {
			return
		}
		if layout.KernelOf(tab) != "go" {
			t.Errorf("kernel %s", layout.KernelOf(tab))
		}
		asked := false
		v, h := randomView(rand.New(rand.NewPCG(1, 1)), tab, nil), layout.NewHasher(1)
		if layout.NewDirect(tab, v, &h, func(uint64) bool { asked = true; return true }).ContainsHash(1); !asked {
			t.Error("a Direct answers without Go")
		}
	})
}
