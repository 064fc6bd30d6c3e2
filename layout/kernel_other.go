//go:build !amd64

package layout

func kernels() []kernel { return []kernel{pureGo} }

func (b *blockedBatch) run(kernel) {}
