//go:build amd64 || arm64

package layout

// Prefetch asks for the cache line of a word, and does not wait for it. It never
// faults.
//
//go:noescape
func Prefetch(p *uint64)
