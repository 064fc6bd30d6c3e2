// Package kernel says which instructions lookups use on this machine. It also has the code that all
// layouts share, which prefetches, tests many bits at once, and computes the lines of many hashes at
// once. All of it is also written in Go. The assembly is tested against the code in Go, and gives the
// same answers faster.
package kernel

import (
	"fmt"
	"sync/atomic"
)

// Group is how many hashes a kernel for batches looks up at once.
const Group = 8

var inUse atomic.Uint32

func init() { inUse.Store(uint32(available()[0])) }

// InUse returns the ISA in use: the fastest of this machine, or the one that Use chose. Lookups
// in a layout that has no code for this ISA use Go.
func InUse() ISA { return ISA(inUse.Load()) }

// Names returns the names of the ISAs that this machine has, the fastest first.
func Names() (names []string) {
	for _, k := range available() {
		names = append(names, k.String())
	}
	return names
}

// Use makes later lookups use the ISA with a name, in layouts that have code for it. A
// layout.Direct that exists already keeps its ISA. Use is for tests and measurements.
func Use(name string) error {
	for _, k := range available() {
		if k.String() == name {
			inUse.Store(uint32(k))
			return nil
		}
	}
	return fmt.Errorf("layout: no kernel %q on this machine", name)
}
