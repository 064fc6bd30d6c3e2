package compact

import "github.com/mmapfilter/mmapfilter/layout"

//go:generate go run -C ../_asm . -out ../compact/kernel_amd64.s -stubs ../compact/stubs_amd64.go -pkg compact

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

// addresses gives the code for BMI2, and with AVX-512 VBMI for remainders of up to 8 bits
// and for longer ones.
func addresses() (narrow, short, long code) {
	lookAddresses(&narrow, &short, &long)
	return narrow, short, long
}

// run does the groups of a batch with AVX-512.
func (b *batch) run() {
	if b.tables != nil {
		shardsAVX512(b)
	} else {
		batchAVX512(b)
	}
}
