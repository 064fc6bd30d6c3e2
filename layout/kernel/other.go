//go:build !amd64

package kernel

// HasVBMI and PDEPIsSlow are about amd64. Elsewhere there is neither VBMI nor PDEP, so lookups use the
// code in Go.
const HasVBMI, PDEPIsSlow = false, true

func testBitsAVX512(bits *uint64, mask uint64, positions *uint64, groups int, set *uint8) {
	panic("layout: no kernel")
}

func splitLinesAVX512(hashes *uint64, n uint64, lines *uint64, groups int) {
	panic("layout: no kernel")
}

func sumAVX2(words *uint64, sixteens int) (sum, or uint64) { panic("layout: no kernel") }
