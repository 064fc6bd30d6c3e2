package layout

// The runtime page is how a writer informs readers in other processes while both run. It
// has no checksum, is never reset, and does not affect what the filter holds: its loss
// costs no more than a few answers of "maybe".
//
//	word   offset  what
//	   0    16384  recovery epoch: odd while someone recovers the file; all bits are set once
//	               another file has taken its place
//	   8    16448  removal counter of the stash
//	  16    16512  promise, in two places of two words that take turns
//	 256    18432  removal counters of the lines, 256 of them
//
// A removal counter is odd while one of its words loses something that a lookup may be
// looking for, and higher afterwards. The words of a file from the stash on form blocks
// of 64 bytes. The blocks of the region share the 256 counters in turn; those of the
// stash share one.
//
// A promise is the LSN up to which the log is durable, and a check.
const (
	RuntimeEpoch        = 0
	Superseded          = 1<<64 - 1 // the epoch of a file whose place another one has taken
	RuntimeStashCounter = 8
	runtimePromises     = 16
	promisePlaces       = 2
	runtimeCounters     = 256
	counterStripes      = 256 // 2 KiB, half of the page: a removal disturbs one lookup in 256
)

// EpochAfter returns the epoch after a recovery in which it was odd: one that no lookup can have begun
// with. A file may need recovery although it says that it is superseded, if its writer died before the
// other file had the name; 0 is the epoch of most files.
func EpochAfter(odd uint64) uint64 {
	if odd == Superseded {
		return 1 << 63
	}
	return odd + 1
}

// CounterOf returns the removal counter of a word of the stash or of the region, as a
// word of the runtime page counted from its start.
func CounterOf(word uint64) uint64 {
	if word < WordRegion {
		return RuntimeStashCounter
	}
	return blockCounter((word - WordRegion) / BlockWords)
}

// blockCounter returns the counter of a block of the region.
func blockCounter(block uint64) uint64 { return runtimeCounters + block%counterStripes }

// Counters calls each for every removal counter of the runtime page.
func Counters(each func(word uint64)) {
	each(RuntimeStashCounter)
	for i := range uint64(counterStripes) {
		each(runtimeCounters + i)
	}
}

// PutPromise stores the promise that the log with that salt is durable up to lsn.
// Increment turn from call to call: promises alternate between two places, so that a
// store that is cut short leaves the one before.
func PutPromise(store func(word, value uint64), turn int, salt, lsn uint64) {
	at := runtimePromises + 2*uint64(turn%promisePlaces)
	store(at, lsn)
	store(at+1, promiseCheck(salt, lsn))
}

// Promise returns the highest LSN that a promise for that salt vouches for, or 0 if
// there is none.
func Promise(runtime []uint64, salt uint64) (lsn uint64) {
	for place := range uint64(promisePlaces) {
		at := runtimePromises + 2*place
		if v := loadWord(runtime, at); v > lsn && loadWord(runtime, at+1) == promiseCheck(salt, v) {
			lsn = v
		}
	}
	return lsn
}

func promiseCheck(salt, lsn uint64) uint64 { return (salt^lsn*MixFirst)*MixSecond ^ lsn }
