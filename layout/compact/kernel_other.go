//go:build !amd64

package compact

import "github.com/mmapfilter/mmapfilter/layout"

func one(*table, *layout.View, uint64) (found, open bool) { panic("layout: no kernel") }

func addresses() (narrow, short, long layout.Code) { panic("layout: no kernel") }

func (b *batch) run() { panic("layout: no kernel") }
