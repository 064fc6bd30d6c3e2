package layout

import (
	"math/rand/v2"
	"testing"
)

// TestSlowPDEP: processors by what their CPUID says.
func TestSlowPDEP(t *testing.T) {
	text := func(s string) uint32 {
		return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	}
	for _, c := range []struct {
		name      string
		vendor    string
		signature uint32
		slow      bool
	}{
		{"Excavator", "Auth", 0x00660F01, true},
		{"Zen 1", "Auth", 0x00800F11, true},
		{"Zen 2", "Auth", 0x00830F10, true},
		{"Dhyana", "Hygo", 0x00900F01, true},
		{"Zen 3", "Auth", 0x00A20F10, false},
		{"Zen 4", "Auth", 0x00A10F11, false},
		{"Zen 5", "Auth", 0x00B40F40, false},
		{"Haswell", "Genu", 0x000306C3, false},
		{"Sapphire Rapids", "Genu", 0x000806F8, false},
	} {
		if got := hasSlowPDEP(text(c.vendor), c.signature); got != c.slow {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	_, vendor := cpuid(0)
	t.Logf("this one: %08x, slow: %t", vendor, pdepIsSlow)
}

// TestWithoutPDEP: where it is slow, Compact is looked up in Go, and says so.
func TestWithoutPDEP(t *testing.T) {
	defer func(slow bool) { pdepIsSlow = slow }(pdepIsSlow)
	pdepIsSlow = true
	eachTable(t, 50, func(t *testing.T, tab Table) {
		want := map[Kind]string{Blocked: Kernel(), Compact: "go"}[tab.Kind()]
		if want != "" && tab.Kernel() != want {
			t.Errorf("kernel %s, not %s", tab.Kernel(), want)
		}
		v, h := randomView(rand.New(rand.NewPCG(1, 1)), tab, nil), NewHasher(1)
		if d := NewDirect(tab, v, &h, nil); d.compact != nil {
			t.Error("it has direct looks")
		}
	})
}
