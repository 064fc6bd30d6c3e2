package kernel

import "golang.org/x/sys/cpu"

//go:generate go run -C ../_asm . -out ../kernel/bits_amd64.s -stubs ../kernel/bits_amd64.go -pkg kernel

// available lists the ISAs of this machine, the fastest first.
func available() (list []ISA) {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX2 && x.HasBMI2 && x.HasBMI1 && x.HasPOPCNT {
		list = append(list, AVX512)
	}
	if x.HasAVX2 && x.HasBMI1 && x.HasBMI2 && x.HasPOPCNT {
		list = append(list, AVX2)
	}
	return append(list, Go)
}

// HasVBMI says whether the machine has AVX-512 VBMI, which permutes the bytes of a register.
var HasVBMI = cpu.X86.HasAVX512VBMI

// PDEPIsSlow says whether PDEP is microcode that takes several steps for each bit: on AMD
// before Zen 3, and on Hygon, which is Zen 1 (Fog, "Instruction tables"; wikichip.org,
// "Zen 3"). The code in Go is faster there. Only tests change PDEPIsSlow.
var PDEPIsSlow = func() bool {
	_, vendor := cpuid(0)
	signature, _ := cpuid(1)
	return hasSlowPDEP(vendor, signature)
}()

// hasSlowPDEP returns PDEPIsSlow for register EBX of CPUID leaf 0 and EAX of leaf 1.
func hasSlowPDEP(vendor, signature uint32) bool {
	const amd, hygon = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24, 'H' | 'y'<<8 | 'g'<<16 | 'o'<<24
	const zen3 = 0x19
	family := signature>>8&0xF + signature>>20&0xFF
	return (vendor == amd || vendor == hygon) && family < zen3
}
