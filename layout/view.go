package layout

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A View is the part of a file that lookups read, as words.
type View struct {
	Region  []uint64 // the lines
	Stash   []uint64 // the stash, StashWords
	Runtime []uint64 // the runtime page, RuntimeWords

	at func(word uint64) uint64 // At as a method value, allocated once and not for each lookup
}

// ViewOf returns a view of these parts, which may lie in different places.
func ViewOf(region, stash, runtime []uint64) View {
	v := &View{Region: region, Stash: stash, Runtime: runtime}
	v.at = v.At
	return *v
}

// source returns At as the source of words for [Lookup].
func (v *View) source() func(word uint64) uint64 {
	if v.at == nil { // not made by ViewOf
		return v.At
	}
	return v.at
}

// At returns a word of a file by its number. It is the source of words for
// [Lookup] if the file is in memory.
func (v *View) At(word uint64) uint64 {
	switch {
	case word >= WordRegion:
		return loadWord(v.Region, word-WordRegion)
	case word >= WordStash:
		return loadWord(v.Stash, word-WordStash)
	}
	return loadWord(v.Runtime, word-WordRuntime)
}

// counters returns the sum of the epoch and all removal counters, and in bit 0 of odd whether one of
// them is odd.
func (v *View) counters() (sum, odd uint64) {
	runtime := (*[RuntimeWords]uint64)(v.Runtime)
	e, s := atomic.LoadUint64(&runtime[RuntimeEpoch]), atomic.LoadUint64(&runtime[RuntimeStashCounter])
	sum, odd = kernel.Sum(runtime[runtimeCounters : runtimeCounters+counterStripes])
	return sum + e + s, odd | e | s
}

// moved reports whether a counter has changed since counters returned sum and odd, or is or was odd.
func (v *View) moved(sum, odd uint64) bool {
	again, oddAgain := v.counters()
	return again != sum || (odd|oddAgain)&1 != 0
}
