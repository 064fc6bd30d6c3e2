//go:build !amd64 && !arm64

package kernel

// available lists the ISAs of this machine.
func available() []ISA { return []ISA{Go} }
