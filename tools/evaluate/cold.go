package main

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// coldBlock is the number of lookups after which a cold file is dropped from memory again, so
// that few lookups find a page that an earlier one read.
const coldBlock = 500

// coldExpected returns how many pages of a cold file a lookup reads, if it reads the given
// number of places. Pages that an earlier lookup of the block read are not read again.
func (c *config) coldExpected(places float64) float64 {
	pages := float64(c.extent.cold / layout.PageBytes)
	return pages * -math.Expm1(coldBlock*places*math.Log1p(-1/pages)) / coldBlock
}
