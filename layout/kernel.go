package layout

import (
	"fmt"
	"sync/atomic"
)

// A kernel looks up the hashes of a batch. The one in pure Go always exists. The others
// are tested against it: they give the same answers, faster.
type kernel uint32

const (
	pureGo kernel = iota
	neon
	avx2
	avx512
)

func (k kernel) String() string { return [...]string{"go", "neon", "avx2", "avx512"}[k] }

// single reports whether the kernel also has code for single lookups.
func (k kernel) single() bool { return k >= avx2 }

// inUse is the fastest kernel of this machine, or the one that UseKernel chose.
var inUse atomic.Uint32

func init() { inUse.Store(uint32(kernels()[0])) }

// Kernels returns the kernels that lookups can use on this machine, the fastest first:
// "avx512" and "avx2" on amd64 if the processor has them, "neon" on arm64, and "go"
// everywhere.
func Kernels() (names []string) {
	for _, k := range kernels() {
		names = append(names, k.String())
	}
	return names
}

// Kernel returns the name of the kernel in use. A layout that has no code for it is
// looked up in pure Go: see [Table].
func Kernel() string { return kernel(inUse.Load()).String() }

// UseKernel makes later lookups use the kernel of that name where it has code for them.
// An existing [Direct] keeps its kernel. It is for tests and measurements.
func UseKernel(name string) error {
	for _, k := range kernels() {
		if k.String() == name {
			inUse.Store(uint32(k))
			return nil
		}
	}
	return fmt.Errorf("layout: no kernel %q on this machine", name)
}
