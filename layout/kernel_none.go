//go:build !amd64 && !arm64

package layout

func kernels() []kernel { return []kernel{pureGo} }

func (b *blockedBatch) run(kernel) { panic("layout: no kernel") }
