package layout

import (
	"errors"
	"fmt"
)

// ErrCorrupt is matched by every [CorruptError].
var ErrCorrupt = errors.New("corrupt filter file")

// ErrVersion is matched by every [VersionError].
var ErrVersion = errors.New("filter file needs a newer program")

// Regions of a filter file, as a [CorruptError] names them.
const (
	RegionFile       = "file"       // the file as a whole: its size
	RegionSuperblock = "superblock" // 0 to 16383
	RegionRuntime    = "runtime"    // 16384 to 20479
	RegionStash      = "stash"      // 20480 to 32767
	RegionBuckets    = "region"     // the lines, and their padding to a page
	RegionChecksums  = "checksums"  // the chunk checksum table
	RegionTrailer    = "trailer"    // the trailer, and the padding around it
	RegionLog        = "log"        // NAME.stash: offsets in that file
)

// A CorruptError says which bytes of a file break which rule of the format.
// It matches [ErrCorrupt].
type CorruptError struct {
	Region string // one of the Region constants
	Offset int64  // byte offset in its file: the first byte known to be wrong, or the start of the part that is
	Rule   string // the number of the rule (F1 to F13 and L1 to L5 in the package essay) and what was found
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt %s at offset %d: %s", e.Region, e.Offset, e.Rule)
}

// Is makes errors.Is(err, ErrCorrupt) hold.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func corrupt(region string, offset int64, format string, args ...any) *CorruptError {
	return &CorruptError{Region: region, Offset: offset, Rule: fmt.Sprintf(format, args...)}
}

// A VersionError says that a file is whole, but was written by a program that
// knows more than this one. It matches [ErrVersion].
type VersionError struct {
	Version  uint32 // format version of the file
	Features uint64 // the flags this program does not know and may not ignore
}

func (e *VersionError) Error() string {
	if e.Features != 0 {
		return fmt.Sprintf("filter file uses unknown features %#x", e.Features)
	}
	return fmt.Sprintf("filter file has format version %d, this program reads version %d", e.Version, FormatVersion)
}

// Is makes errors.Is(err, ErrVersion) hold.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }
