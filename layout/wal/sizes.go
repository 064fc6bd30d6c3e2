package wal

// Sizes of a log and of its parts.
const (
	PageBytes   = 4096
	PageWords   = PageBytes / 8
	HeaderSlots = 2                       // header pages: one for even and one for odd generations
	FirstWord   = HeaderSlots * PageWords // of the first segment

	// Bounds on the size of a log. In thirty-two pages, each half holds the longest
	// operation of any layout twice. The upper bound only rejects nonsense.
	MinBytes = 32 * PageBytes
	MaxBytes = 1 << 40

	version     = 3  // of the format
	RecordBytes = 24 // a record of one word; each further word adds 8

	segmentHeadWords = 18 // before the first record
	commitAt         = 5  // word of the commit record in its segment
	recordWords      = RecordBytes / 8
)
