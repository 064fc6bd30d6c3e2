package measure

import (
	"encoding/json"
	"math/bits"
	"time"
)

// A histogram counts durations in steps of at most 1/64 of their size. It keeps the largest
// exactly.
type histogram struct {
	counts  [histogramSteps]uint64
	n       uint64
	largest time.Duration
}

const (
	stepBits       = 6
	histogramSteps = (64 - stepBits) << stepBits
)

// step returns the number of the step that a duration falls in. Durations below 2^stepBits have
// a step each; above, each power of two has 2^stepBits steps.
func step(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 1<<stepBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - stepBits
	return shift<<stepBits + int(v>>shift)
}

// stepEnd is the longest duration of a step.
func stepEnd(i int) time.Duration {
	if i < 2<<stepBits {
		return time.Duration(i)
	}
	shift := i>>stepBits - 1
	return time.Duration((uint64(i)-uint64(shift)<<stepBits+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.counts[step(d)]++
	h.n++
	h.largest = max(h.largest, d)
}

func (h *histogram) merge(other *histogram) {
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
	h.largest = max(h.largest, other.largest)
}

// percentile returns a duration that at least the share p of all durations do not exceed,
// rounded up to the end of its step.
func (h *histogram) percentile(p float64) time.Duration {
	rank := uint64(p * float64(h.n))
	for i, c := range h.counts {
		if rank < c {
			return min(stepEnd(i), h.largest)
		}
		rank -= c
	}
	return h.largest
}

// histogramJSON is the form in which processes exchange a histogram: only the steps that have a
// count.
type histogramJSON struct {
	Counts  map[int]uint64
	Largest time.Duration
}

func (h *histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{Counts: map[int]uint64{}, Largest: h.largest}
	for i, c := range h.counts {
		if c > 0 {
			j.Counts[i] = c
		}
	}
	return json.Marshal(j)
}

func (h *histogram) UnmarshalJSON(data []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*h = histogram{largest: j.Largest}
	for i, c := range j.Counts {
		if i >= 0 && i < len(h.counts) {
			h.counts[i] = c
			h.n += c
		}
	}
	return nil
}
