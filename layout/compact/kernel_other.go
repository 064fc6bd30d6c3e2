//go:build !amd64

package compact

import "github.com/mmapfilter/mmapfilter/layout"

func one(*table, *layout.View, uint64) (found, open bool) { panic("layout: no kernel") }

func codeOf(lookWidth) layout.Code { panic("layout: no kernel") }

func (b *batch) run(lookWidth) { panic("layout: no kernel") }
