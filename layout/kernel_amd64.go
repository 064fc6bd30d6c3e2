package layout

import "golang.org/x/sys/cpu"

//go:generate go run -C _asm . -out ../blocked_amd64.s -stubs ../blocked_amd64.go -pkg layout

func kernels() (list []kernel) {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX2 && x.HasBMI2 && x.HasBMI1 && x.HasPOPCNT {
		list = append(list, avx512)
	}
	if x.HasAVX2 && x.HasBMI1 && x.HasBMI2 && x.HasPOPCNT {
		list = append(list, avx2)
	}
	return append(list, pureGo)
}

// hasVBMI says whether bytes of a register can be put in any order.
var hasVBMI = cpu.X86.HasAVX512VBMI

// pdepIsSlow is for processors whose PDEP is a program that takes several steps for each bit:
// those of AMD before Zen 3, and Hygon's, which are Zen 1 (Fog, "Instruction tables"; wikichip.org,
// "Zen 3"). The code in Go is faster there.
var pdepIsSlow = func() bool {
	_, vendor := cpuid(0)
	signature, _ := cpuid(1)
	return hasSlowPDEP(vendor, signature)
}()

// hasSlowPDEP decides it from register EBX of CPUID leaf 0 and EAX of leaf 1.
func hasSlowPDEP(vendor, signature uint32) bool {
	const amd, hygon = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24, 'H' | 'y'<<8 | 'g'<<16 | 'o'<<24
	const zen3 = 0x19
	family := signature>>8&0xF + signature>>20&0xFF
	return (vendor == amd || vendor == hygon) && family < zen3
}

// addresses gives the functions of assembly that look a hash, and a key, up in this way.
func (l look) addresses() (hash, key uintptr) {
	var hashes, keys [lookInGo + 1]uintptr
	lookAddresses(&hashes, &keys)
	return hashes[l], keys[l]
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
