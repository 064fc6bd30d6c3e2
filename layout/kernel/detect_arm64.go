package kernel

// available: every arm64 processor has NEON. There is code for batches of Blocked alone.
func available() []ISA { return []ISA{NEON, Go} }
