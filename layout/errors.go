package layout

import (
	"errors"
	"fmt"
)

// ErrCorrupt is matched by every [CorruptError].
var ErrCorrupt = errors.New("corrupt filter file")

// formatVersion is the format version that this program writes, and the newest that it reads.
const formatVersion = 1

// ErrVersion is matched by every [VersionError].
var ErrVersion = errors.New("filter file needs a newer program")

// Parts of a filter file, as [CorruptError.Region] names them, with their offsets in
// bytes.
const (
	RegionFile       = "file"       // the file as a whole, such as its size
	RegionSuperblock = "superblock" // 0 to 16383
	RegionRuntime    = "runtime"    // 16384 to 20479
	RegionStash      = "stash"      // 20480 to 32767
	RegionBuckets    = "region"     // the lines, and padding to a page
	RegionChecksums  = "checksums"  // the chunk checksum table
	RegionTrailer    = "trailer"    // the trailer, and padding around it
	RegionLog        = "log"        // NAME.stash; offsets are in that file
	RegionHashes     = "hashes"     // NAME.hashes; offsets are in that file
	RegionSet        = "set"        // NAME.apply; offsets are in that file
)

// A CorruptError says which rule of the format a file breaks, and where. It matches
// [ErrCorrupt].
type CorruptError struct {
	Region string // one of the Region constants
	Offset int64  // in the file, in bytes: the first byte known to be wrong, or the start of the damaged part
	Rule   string // the number of the rule, such as F1, in the essay of layout, wal, hashes or recovery
	What   string // a description of the damage; NAME stands for the path of the filter

	// At most one of these is set. If one is, the error is not about damage that a verification
	// would report.
	NoFilter bool // the file is empty or does not begin like a filter file
	NoLog    bool // the log of a file that was not closed is missing
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt %s at offset %d: %s: %s", e.Region, e.Offset, e.Rule, e.What)
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func corrupt(region string, offset int64, rule, format string, args ...any) *CorruptError {
	return &CorruptError{Region: region, Offset: offset, Rule: rule, What: fmt.Sprintf(format, args...)}
}

func notFilter(region, what string) *CorruptError {
	return &CorruptError{Region: region, Rule: "F1", What: what, NoFilter: true}
}

// A VersionError says that an intact file needs a newer program than this one. It
// matches [ErrVersion].
type VersionError struct {
	Version  uint32 // format version of the file
	Features uint64 // flags that this program does not know and must not ignore
}

func (e *VersionError) Error() string {
	if e.Features != 0 {
		return fmt.Sprintf("unknown features %#x", e.Features)
	}
	return fmt.Sprintf("format version %d, but this program reads versions up to %d", e.Version, formatVersion)
}

// Is reports whether target is [ErrVersion].
func (e *VersionError) Is(target error) bool { return target == ErrVersion }
