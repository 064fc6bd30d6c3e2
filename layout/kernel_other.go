//go:build !amd64

package layout

// There are no such instructions.
const hasVBMI, pdepIsSlow = false, true

func blockedOne(*blocked, *View, uint64) (found, open bool) { panic("layout: no kernel") }

func compactLine(*compact, *Line, uint64) (found, beyond, long bool) { panic("layout: no kernel") }

func compactOne(*compact, *View, uint64) (found, open bool) { panic("layout: no kernel") }

func directHash(d *Direct, h uint64) bool { return directHashInGo(d, h) }

func directKey(d *Direct, key []byte) bool { return directKeyInGo(d, key) }

func (l look) addresses() (hash, key uintptr) { return 0, 0 }

func (b *compactBatch) run() { panic("layout: no kernel") }

func testBitsAVX512(bits *uint64, mask uint64, positions *uint64, groups int, set *uint8) {
	panic("layout: no kernel")
}

func blockedFullAVX512(region, lines *uint64, n int, low, highs uint64) uint64 {
	panic("layout: no kernel")
}

func splitLinesAVX512(hashes *uint64, n uint64, lines *uint64, groups int) {
	panic("layout: no kernel")
}
