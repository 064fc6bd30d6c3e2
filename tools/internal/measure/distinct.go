package measure

import "math"

// distinct is how many of so many pages are met by touches of random ones.
func distinct(pages, touches float64) float64 {
	return pages * -math.Expm1(touches*math.Log1p(-1/pages))
}
