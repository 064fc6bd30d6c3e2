package kernel

import (
	"testing"
)

// TestSlowPDEP: the vendor and signature of a processor tell whether its PDEP is slow.
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
	t.Logf("this processor: %08x, slow: %t", vendor, PDEPIsSlow)
}
