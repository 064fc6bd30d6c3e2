package compact

import "github.com/mmapfilter/mmapfilter/layout"

//go:generate go run -C ../_asm . -out ../compact/kernel_amd64.s -stubs ../compact/stubs_amd64.go -pkg compact

// The assembly knows these types by these names.
type (
	view = layout.View
	base = layout.Direct
	code = layout.Code
)

// The code for single keys jumps to these functions instead of returning.
var _, _ = keyInGo, hashInGo

func keyInGo(d *base, key []byte) bool { return layout.KeyInGo(d, key) }
func hashInGo(d *base, h uint64) bool  { return layout.HashInGo(d, h) }

// codeOf returns the code of a width for single keys.
func codeOf(w lookWidth) code {
	codes := map[lookWidth]*code{narrow: new(code), oneByte: new(code), twoBytes: new(code), fourBytes: new(code)}
	lookAddresses(codes[narrow], codes[oneByte], codes[twoBytes], codes[fourBytes])
	return *codes[w]
}

// run looks up the groups of a batch.
func (b *batch) run(w lookWidth) {
	switch set := b.tables != nil; {
	case w == narrow && set:
		shardsNarrow(b)
	case w == narrow:
		batchNarrow(b)
	case w == oneByte && set:
		shardsShort(b)
	case w == oneByte:
		batchShort(b)
	case w == twoBytes && set:
		shardsLong(b)
	case w == twoBytes:
		batchLong(b)
	case set:
		shardsLongest(b)
	default:
		batchLongest(b)
	}
}
