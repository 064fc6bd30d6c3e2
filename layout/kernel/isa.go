package kernel

// An ISA is a set of instructions that lookups can use.
type ISA uint32

const (
	Go     ISA = iota // the compiled Go code, without assembly
	AVX2              // with BMI1, BMI2 and POPCNT
	AVX512            // F, DQ, BW and VL, and AVX2
)

// String returns the name: "go", "avx2" or "avx512".
func (k ISA) String() string { return [...]string{"go", "avx2", "avx512"}[k] }

// Single reports whether there is code for lookups of single keys.
func (k ISA) Single() bool { return k >= AVX2 }
