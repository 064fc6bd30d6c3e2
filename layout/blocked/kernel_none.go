//go:build !amd64 && !arm64

package blocked

import "github.com/mmapfilter/mmapfilter/layout/kernel"

func (b *batch) run(kernel.ISA) { panic("layout: no kernel") }
