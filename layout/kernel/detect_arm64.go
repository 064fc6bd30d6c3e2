package kernel

// available lists the ISAs of this machine, the fastest first. Every arm64 processor has NEON.
// Only Blocked has code for it, and only for batches.
func available() []ISA { return []ISA{NEON, Go} }
