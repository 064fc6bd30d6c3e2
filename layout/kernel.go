package layout

import (
	"fmt"
	"sync/atomic"
)

// A kernel looks the hashes of a batch up. The pure-Go one is always there, and
// is what the others are tested against: they give the same answers, faster.
type kernel uint32

const (
	pureGo kernel = iota
	neon
	avx2
	avx512
)

func (k kernel) String() string { return [...]string{"go", "neon", "avx2", "avx512"}[k] }

// single reports whether the kernel has code for one lookup as well.
func (k kernel) single() bool { return k >= avx2 }

// inUse is the fastest that this machine has, or the one that was asked for.
var inUse atomic.Uint32

func init() { inUse.Store(uint32(kernels()[0])) }

// Kernels lists the kernels that lookups can use on this machine, the
// fastest first: "avx512" and "avx2" on amd64 where the processor has them, "neon" on
// arm64, and "go" everywhere.
func Kernels() (names []string) {
	for _, k := range kernels() {
		names = append(names, k.String())
	}
	return names
}

// Kernel names the one of them that is in use. A layout that has no such code of its
// own is looked up in pure Go all the same, see [Table].
func Kernel() string { return kernel(inUse.Load()).String() }

// UseKernel makes all lookups from now on use that kernel, as far as it has code for them; but
// a [Direct] that there is stays what it is. It is for tests and measurements.
func UseKernel(name string) error {
	for _, k := range kernels() {
		if k.String() == name {
			inUse.Store(uint32(k))
			return nil
		}
	}
	return fmt.Errorf("layout: this machine has no kernel %q", name)
}
