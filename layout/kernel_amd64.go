package layout

import "golang.org/x/sys/cpu"

//go:generate go run -C _asm . -out ../blocked_amd64.s -stubs ../blocked_amd64.go -pkg layout

func kernels() (list []kernel) {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX2 && x.HasBMI2 && x.HasBMI1 && x.HasPOPCNT {
		list = append(list, avx512)
	}
	if x.HasAVX2 && x.HasBMI1 && x.HasBMI2 && x.HasPOPCNT {
		list = append(list, avx2)
	}
	return append(list, pureGo)
}

// run does the groups of a batch. A call through a function value would move the
// batch, and what it points to, to the heap.
func (b *blockedBatch) run(k kernel) {
	switch k {
	case avx512:
		blockedAVX512(b)
	case avx2:
		blockedAVX2(b)
	}
}

// run does the groups of a batch with AVX-512.
func (b *compactBatch) run() { compactAVX512(b) }
