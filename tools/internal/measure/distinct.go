package measure

import "math"

// distinct returns the expected number of different pages that this many touches of random pages
// meet.
func distinct(pages, touches float64) float64 {
	return pages * -math.Expm1(touches*math.Log1p(-1/pages))
}
