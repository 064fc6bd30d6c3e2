package picture

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// between returns the range of an axis: the given one, or that of the points, widened if they
// are all equal.
func (a Axis) between(points []float64) (low, high float64) {
	if a.Min != 0 || a.Max != 0 {
		return a.Min, a.Max
	}
	low, high = math.Inf(1), math.Inf(-1)
	for _, x := range points {
		low, high = min(low, x), max(high, x)
	}
	switch {
	case low < high:
	case a.Log:
		low, high = low/2, high*2
	default:
		low, high = low-1, high+1
	}
	return low, high
}

func (a Axis) scale() plot.Normalizer {
	if a.Log {
		return plot.LogScale{}
	}
	return plot.LinearScale{}
}

func (a Axis) ticker() plot.Ticker {
	if a.Ticks != nil {
		return plot.TickerFunc(func(_, _ float64) (ticks []plot.Tick) {
			for _, t := range a.Ticks {
				ticks = append(ticks, plot.Tick{Value: t.At, Label: t.Label})
			}
			return ticks
		})
	}
	if a.Log {
		return plot.TickerFunc(logTicks)
	}
	return plot.TickerFunc(linearTicks)
}

// maxSteps is how many labels of six digits fit.
const maxSteps = 7

// linearTicks returns ticks at multiples of 1, 2 or 5 times a power of ten, few enough that
// their labels fit.
func linearTicks(low, high float64) (ticks []plot.Tick) {
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 4))))
	for _, factor := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step >= maxSteps {
			step *= factor
		}
	}
	// Rounding may move an end: 6 * 0.05 is above 0.3.
	for i := int(math.Ceil(low/step - 1e-9)); i <= int(math.Floor(high/step+1e-9)); i++ {
		x := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: min(max(x, low), high), Label: label(x)})
	}
	return ticks
}

// label formats 1e-05 as 1e-5, and 0.30000000000000004 as 0.3.
func label(x float64) string {
	text := strconv.FormatFloat(x, 'g', 6, 64)
	mantissa, exponent, ok := strings.Cut(text, "e")
	if !ok {
		return text
	}
	sign := ""
	if exponent[0] == '-' {
		sign = "-"
	}
	return mantissa + "e" + sign + strings.TrimLeft(exponent, "+-0")
}

// maxDecades is how many powers of ten fit with a label each.
const maxDecades = 7

// logTicks labels powers of ten, or only some of them if there are many. On an axis of less
// than two decades it also labels their doubles and fives. An axis too short for that has
// linear ticks.
func logTicks(low, high float64) []plot.Tick {
	first, last := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	step := (last-first)/maxDecades + 1
	fine := high/low < 100
	labels := 0
	var ticks []plot.Tick
	for exponent := first; exponent <= last; exponent++ {
		for digit := 1; digit < 10; digit++ {
			x, _ := strconv.ParseFloat(strconv.Itoa(digit)+"e"+strconv.Itoa(exponent), 64)
			if x < low || x > high {
				continue
			}
			tick := plot.Tick{Value: x}
			if digit == 1 && exponent%step == 0 || fine && (digit == 2 || digit == 5) {
				tick.Label = label(x)
				labels++
			}
			ticks = append(ticks, tick)
		}
	}
	if labels < 2 {
		return linearTicks(low, high)
	}
	return ticks
}
