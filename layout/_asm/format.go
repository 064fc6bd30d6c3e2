package main

// What packages layout and blocked call by these names, or by those behind them.
const (
	mixFirst      = 0x9E3779B97F4A7C15
	mixSecond     = 0xBB67AE8584CAA73B
	overflowLow   = 60
	stripes       = 256 // counterStripes
	counters      = 256 // runtimeCounters
	stashCounter  = 8   // RuntimeStashCounter
	stashGroups   = 192
	stashLineBits = 56
)

const (
	// windowBits is how many bits of a line a load of eight bytes has from any bit on.
	windowBits = 57

	lineBytes    = 64
	quotientBits = 6
	directions   = 16 // overflow bits of a line
)

// The fields of a blocked, and of a View.
const (
	blockedLines  = 8 * 0
	blockedValues = 8 * 1
	blockedOnes   = 8 * 2 // twice, for two lanes; so are the lanes and the highs
	blockedLanes  = 8 * 4
	blockedMarks  = 8 * 6
	blockedHighs  = 8 * 10

	viewRegion  = 8 * 0
	viewRuntime = 8 * 6
)

// The fields of a compact.
const (
	compactLines  = 8 * 0
	compactR      = 8 * 2
	compactCounts = 8 * 5
	compactValues = 8 * 15
	compactOnes   = 8 * 17
	compactHighs  = 8 * 18
	compactShift  = 8 * 19
)

// The fields of a Direct.
const (
	directMix      = 8 * 0 // what the two ends of a key are mixed with
	directRegion   = 8 * 2
	directRuntime  = 8 * 3
	directLines    = 8 * 4
	directLookHash = 8 * 5
	directLookKey  = 8 * 6
	directLookOwn  = 8 * 7
	directStash    = 8 * 8
	directBytes    = 8 * 14
)

// What a Shards has behind its Direct.
const (
	shardsTables = directBytes
	shardsCount  = directBytes + 8*3
)

// What stands behind them in a direct of Blocked, and in one of Compact.
const (
	blockedConstants = directBytes

	compactDirectTable    = directBytes
	compactDirectLow      = directBytes + 8*1 // a slotted
	compactDirectInUse    = directBytes + 8*2
	compactDirectInCounts = directBytes + 8*3
	compactDirectR        = directBytes + 8*4
	compactDirectLines64  = directBytes + 8*5
	compactDirectSlots    = directBytes + 8*18 // a slotVectors
)
