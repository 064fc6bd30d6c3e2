package layout

import "sync/atomic"

// The runtime page is what a writer tells readers of other processes while both
// run. It has no checksum, is never set back, and means nothing for what is in
// the filter: its loss costs nothing but a few answers of "maybe".
//
//	word   offset  what
//	   0    16384  recovery epoch: odd while someone recovers the file
//	   8    16448  removal counter of the stash
//	  16    16512  promise, in two places of two words that take turns
//	 256    18432  removal counters of the lines, 256 of them
//
// A removal counter is odd while a word that it stands for loses something that
// a lookup may be looking for, and higher afterwards. All words of a file from
// the stash on are cut into blocks of 64 bytes; the blocks of the region take
// turns with the 256 counters, and those of the stash share one.
//
// A promise is the LSN up to which the log is durable, and a check.
const (
	RuntimeEpoch        = 0
	RuntimeStashCounter = 8
	runtimePromises     = 16
	promisePlaces       = 2
	runtimeCounters     = 256
	counterStripes      = 256
)

// Words of a file are numbered from its first byte.
const (
	WordRuntime  = OffRuntime / 8
	WordStash    = OffStash / 8
	WordRegion   = OffRegion / 8
	StashWords   = StashBytes / 8
	RuntimeWords = RuntimeBytes / 8
	BlockWords   = 8
)

// CounterOf gives the word of the runtime page, counted from its start, that is
// the removal counter of a word of the stash or of the region.
func CounterOf(word uint64) uint64 {
	if word < WordRegion {
		return RuntimeStashCounter
	}
	return blockCounter((word - WordRegion) / BlockWords)
}

// blockCounter gives the counter of a block of the region.
func blockCounter(block uint64) uint64 { return runtimeCounters + block%counterStripes }

// Counters lists the removal counters of the runtime page.
func Counters(each func(word uint64)) {
	each(RuntimeStashCounter)
	for i := range uint64(counterStripes) {
		each(runtimeCounters + i)
	}
}

// PutPromise stores the promise that the log with that salt is durable up to
// lsn. Turn alternates, so that a store cut in two leaves the promise before.
func PutPromise(store func(word, value uint64), turn int, salt, lsn uint64) {
	at := runtimePromises + 2*uint64(turn%promisePlaces)
	store(at, lsn)
	store(at+1, promiseCheck(salt, lsn))
}

// Promise gives the highest LSN that a promise for that salt vouches for; 0
// where there is none.
func Promise(runtime []uint64, salt uint64) (lsn uint64) {
	for place := range uint64(promisePlaces) {
		at := runtimePromises + 2*place
		if v := loadWord(runtime, at); v > lsn && loadWord(runtime, at+1) == promiseCheck(salt, v) {
			lsn = v
		}
	}
	return lsn
}

func promiseCheck(salt, lsn uint64) uint64 { return (salt^lsn*mixFirst)*mixSecond ^ lsn }

// A watch is the counters that tell whether an item moved while its places were read:
// those of its two lines and of the stash, and the epoch. It begins before the first
// place is read.
type watch struct {
	counters [4]*uint64
	sum, odd uint64
}

func watchPlaces(v *View, home, second uint64) (w watch) {
	runtime := (*[RuntimeWords]uint64)(v.Runtime)
	w.counters = [4]*uint64{&runtime[blockCounter(second)], &runtime[RuntimeStashCounter], &runtime[RuntimeEpoch], &runtime[blockCounter(home)]}
	for _, c := range w.counters {
		n := atomic.LoadUint64(c)
		w.sum, w.odd = w.sum+n, w.odd|n
	}
	return w
}

// moved reports whether one of them moved, or was odd. They only ever go up: if their
// sum stood still, they all did.
func (w *watch) moved() bool {
	sum := w.sum
	for _, c := range w.counters {
		sum -= atomic.LoadUint64(c)
	}
	return sum|w.odd&1 != 0
}
