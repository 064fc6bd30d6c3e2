package measure

import "math"

// distinct returns how many different pages this many touches of random pages meet on average.
func distinct(pages, touches float64) float64 {
	return pages * -math.Expm1(touches*math.Log1p(-1/pages))
}
