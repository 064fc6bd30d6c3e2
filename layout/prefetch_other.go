//go:build !amd64 && !arm64

package layout

// Prefetch does nothing: there is no such instruction, or it is not used.
func Prefetch(*uint64) {}
