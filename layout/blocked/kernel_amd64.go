package blocked

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

//go:generate go run -C ../_asm . -out ../blocked/kernel_amd64.s -stubs ../blocked/stubs_amd64.go -pkg blocked

// The names by which the assembly knows them.
type (
	view = layout.View
	base = layout.Direct
	code = layout.Code
)

// What the code for single keys jumps to in place of a return.
var _, _ = keyInGo, hashInGo

func keyInGo(d *base, key []byte) bool { return layout.KeyInGo(d, key) }
func hashInGo(d *base, h uint64) bool  { return layout.HashInGo(d, h) }

// addresses gives the code for AVX2 and for AVX-512.
func addresses() (narrow, wide code) {
	lookAddresses(&narrow, &wide)
	return narrow, wide
}

// run does the groups of a batch. A call through a function value would move the
// batch, and what it points to, to the heap.
func (b *batch) run(k kernel.ISA) {
	switch k {
	case kernel.AVX512:
		batchAVX512(b)
	case kernel.AVX2:
		batchAVX2(b)
	}
}
