package layout

// Offsets and sizes in bytes of the parts of a filter file that do not depend
// on its size.
const (
	SuperblockBytes = 4096
	SuperblockSlots = 4
	OffRuntime      = SuperblockBytes * SuperblockSlots // 16384
	RuntimeBytes    = 4096
	OffStash        = OffRuntime + RuntimeBytes // 20480
	StashBytes      = OffRegion - OffStash      // 12288: what is left of 32 KiB before the region
	OffRegion       = 32768
	LineBytes       = 64
	PageBytes       = 4096
	chunkBytes      = 65536 // bytes under one checksum
	trailerBytes    = 64
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
