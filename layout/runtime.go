package layout

// The runtime page is how a writer informs readers in other processes while both run. It
// has no checksum, is never reset, and does not affect what the filter holds: if the page is
// lost, at worst a few lookups answer "maybe". "Reading beside a writer" in the package essay
// says what is in it. These are words of the page.
const (
	RuntimeEpoch        = 0
	Superseded          = 1<<64 - 1 // the epoch of a file that another one has replaced
	RuntimeStashCounter = 8         // all blocks of the stash share it
	runtimePromises     = 16        // first word of the promises: each has an LSN up to which the log is durable, and a check
	promisePlaces       = 2         // promises alternate between two places, of two words each
	runtimeCounters     = 256       // first word of the counters that the blocks of the region share
	counterStripes      = 256       // 2 KiB, half of the page: a removal disturbs one lookup in 256
)

// EpochAfter returns the even epoch to store when a recovery ends, during which the epoch was odd. No
// earlier lookup can have seen it. A file may need recovery although its epoch is Superseded, if its
// writer died before the other file had the name. Then odd + 1 would be 0, the epoch of most files,
// which earlier lookups may have seen.
func EpochAfter(odd uint64) uint64 {
	if odd == Superseded {
		return 1 << 63
	}
	return odd + 1
}

// CounterOf returns the removal counter of a word of the stash or of the region: the
// number of a word of the runtime page, counted from the start of the page.
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

// PutPromise stores the promise that the log with a salt is durable up to lsn. Increment
// turn from call to call: promises alternate between two places, so that a store that is
// cut short leaves the earlier promise intact.
func PutPromise(store func(word, value uint64), turn int, salt, lsn uint64) {
	at := runtimePromises + 2*uint64(turn%promisePlaces)
	store(at, lsn)
	store(at+1, promiseCheck(salt, lsn))
}

// Promise returns the highest LSN of the promises for a salt, or 0 if there is none.
func Promise(runtime []uint64, salt uint64) (lsn uint64) {
	for place := range uint64(promisePlaces) {
		at := runtimePromises + 2*place
		if v := loadWord(runtime, at); v > lsn && loadWord(runtime, at+1) == promiseCheck(salt, v) {
			lsn = v
		}
	}
	return lsn
}

// HighestPromise returns the highest LSN of the promises for any salt, or 0 if there is
// none.
func HighestPromise(runtime []uint64) (lsn uint64) {
	for place := range uint64(promisePlaces) {
		lsn = max(lsn, loadWord(runtime, runtimePromises+2*place))
	}
	return lsn
}

func promiseCheck(salt, lsn uint64) uint64 { return (salt^lsn*MixFirst)*MixSecond ^ lsn }
