package main

// Constants of packages layout and compact, with the same names or with the names in the
// comments.
const (
	stripes    = 256 // counterStripes
	counters   = 256 // runtimeCounters
	directions = 16  // overflow bits of a line
	lineBytes  = 64
)

// windowBits is the smallest number of bits that a load of eight bytes has from a bit in its first byte
// on.
const windowBits = 57

// The fields of a View.
const (
	viewRegion  = 8 * 0
	viewRuntime = 8 * 6
)

// The fields of a table of Compact.
const (
	tableLines     = 8 * 0
	tableQuotients = 8 * 1
	tableR         = 8 * 2
	tableShift     = 8 * 3
	tableCounts    = 8 * 4
	tableValues    = 8 * 5
	tableOnes      = 8 * 6
	tableHighs     = 8 * 7
	tableInSecond  = 8 * 8
	tableInUse     = 8 * 9
	tableVectors   = 8 * 10
)

// The fields of a slotVectors, the vectors of a table.
const (
	vectorFrom   = lineBytes * 0
	vectorShifts = lineBytes * mostLooks
	vectorValues = lineBytes * 2 * mostLooks

	mostLooks = 4
)

// The fields of a batch of Compact.
const (
	batchTable  = 8 * 0
	batchRegion = 8 * 1
	batchHashes = 8 * 2
	batchFound  = 8 * 3
	batchOpen   = 8 * 4
	batchGroups = 8 * 5
	batchTables = 8 * 6
	batchShards = 8 * 7
)

// The fields of a Direct.
const (
	directMix      = 8 * 0 // the mix of its Hasher
	directRegion   = 8 * 2
	directRuntime  = 8 * 3
	directLines    = 8 * 4
	directLookHash = 8 * 5
	directLookKey  = 8 * 6
	directLookOwn  = 8 * 7
	directBytes    = 8 * 13
)

// The fields of a Shards behind its Direct, and the field of a direct of Compact behind its Direct.
const (
	shardsTables = directBytes
	shardsCount  = directBytes + 8*3

	directTable = directBytes
)
