//go:build !amd64

package kernel

// available lists the ISAs of this machine.
func available() []ISA { return []ISA{Go} }
