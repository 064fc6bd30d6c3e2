package layout

// Internals for the tests outside the package, which can import the layouts.

const (
	AtVersion        = offVersion
	AtGeneration     = offGeneration
	AtCompat         = offCompat
	AtReadOnlyCompat = offReadOnlyCompat
	AtIncompat       = offIncompat
	AtState          = offState
	AtKind           = offKind
	AtFirst          = offFirst
	AtSecond         = offSecond
	AtHashID         = offHashID
	AtSeed           = offSeed
	AtCanary         = offCanary
	AtLines          = offLines
	AtRegionBytes    = offRegionBytes
	AtCapacity       = offCapacity
	AtTargetRate     = offTargetRate
	AtDesignLoad     = offDesignLoad
	AtLength         = offLength
	AtLogBytes       = offLogBytes
	AtReserved       = offReserved
	AtHashes         = offHashesIdentity
	AtLastTime       = offLastTime
	AtReservedEnd    = offReservedEnd
	AtCRC            = offCRC

	HashXXH3       = hashXXH3
	MaxRegionBytes = maxRegionBytes
	ChunkBytes     = chunkBytes
	SpareHashBits  = spareHashBits
	StashGroups    = stashGroups
	GroupWords     = groupWords
	GroupMark      = groupMark
	MaxStashCount  = maxStashCount
)

var (
	StashEntry = stashEntry
	NextGroup  = nextGroup
	Magic      = magic
	SlotAt     = slotAt
	LocateByte = locateByte
)

func (s *Superblock) Put64(off int, v uint64) { s.put64(off, v) }
func (s *Superblock) Checksum() uint32        { return s.checksum() }
func (c Class) Word0() uint64                 { return c.word0() }
func (c Class) FirstGroup() uint64            { return c.firstGroup() }
