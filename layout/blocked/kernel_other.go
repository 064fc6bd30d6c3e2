//go:build !amd64

package blocked

import "github.com/mmapfilter/mmapfilter/layout"

func one(*table, *layout.View, uint64) (found, open bool) { panic("layout: no kernel") }

func fullAVX512(region, lines *uint64, n int, low, highs uint64) uint64 {
	panic("layout: no kernel")
}

func addresses() (narrow, wide layout.Code) { panic("layout: no kernel") }
