package mmapfilter

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Errors that a caller can act on; test for them with errors.Is. An error that wraps one of them
// names the file and says what was found.
var (
	// ErrFull is returned when an insert finds neither a slot nor a stash entry, or when one more
	// key would raise the false-positive rate above 1.5 times the requested one. The filter has not
	// changed (C3). Build a larger filter.
	ErrFull = writer.ErrFull
	// ErrFewKeys is returned by Build and Merge if the filter would have fewer items than
	// [Options.MinKeys]. Nothing has been replaced.
	ErrFewKeys = build.ErrFewKeys
	// ErrLocked is returned when the file is locked: a writer has it open, it is being recovered,
	// Build is about to replace it, or a process keeps writers out with a read lock. [LockedError]
	// matches it and names the process.
	ErrLocked = recovery.ErrLocked
	// ErrInUse is returned on Windows by [Build], [Merge], [Install] and [Filter.Snapshot] if a process
	// has the file at the path open, or mapped: Windows cannot replace it then. Nothing has changed. A
	// filter from [OpenReadOnly] keeps its file mapped even after Close, until the garbage collector has
	// run, unless [ResidencyHeap] is set. On Windows, a [Follower] maps no file.
	ErrInUse = osfile.ErrInUse
	// ErrReadOnly is returned by a method that writes if the filter is open for reading only.
	ErrReadOnly = errors.New("filter is read-only")
	// ErrClosed is returned after Close.
	ErrClosed = writer.ErrClosed
	// ErrFailed is returned after a write to the file or its log has failed. Close the
	// filter and open it again, which recovers it.
	ErrFailed = recovery.ErrFailed
	// ErrNeedsRecovery is returned when the writer of a file has died and the file has
	// not been recovered. [Open] and [Recover] recover it.
	ErrNeedsRecovery = errors.New("filter needs recovery")
	// ErrBusy is returned by a call that needs a file that does not change, such as [Verify] or opening
	// with [ResidencyHeap], if a writer has the file open or changed it meanwhile.
	ErrBusy = recovery.ErrChanging
	// ErrNoHashes is returned by calls that need the hashes of a filter, if the filter does not
	// keep them (see [Options.KeepHashes]), or if its NAME.hashes is missing or damaged, or
	// belongs to another filter or to this filter at another time. A recovery.HashesError says
	// which.
	ErrNoHashes = recovery.ErrHashes
	// ErrChangesGone is returned by [Filter.Changes] if the history from the position on is not kept any
	// more: take a snapshot. [Options.KeepChanges] says how long the filter keeps it.
	ErrChangesGone = build.ErrChangesGone
	// ErrOtherDescent is returned by Changes if the position is not in the history of the filter, and
	// by [Filter.Apply] for changes of a history that the filter does not follow: take a snapshot.
	ErrOtherDescent = build.ErrOtherDescent
	// ErrNotReplica is returned by Apply if the filter is not a replica. It matches ErrOtherDescent.
	ErrNotReplica = writer.ErrNotReplica
	// ErrChangesGap is returned by Apply for changes that do not begin at the position of the filter:
	// other changes must come first.
	ErrChangesGap = writer.ErrChangesGap
	// ErrOtherClasses is returned by Apply for changes that were made for a filter with other [Classes].
	ErrOtherClasses = writer.ErrOtherClasses
	// ErrApplying is returned by an operation on a replica that has only part of a set of changes,
	// because Apply was cut off. Call Apply again.
	ErrApplying = writer.ErrApplying
	// ErrOtherSeed is returned by [Merge] if its inputs have different seeds.
	ErrOtherSeed = errors.New("filters with different seeds cannot be merged")
	// ErrOtherNormalisation is returned by Merge if the notes of its inputs differ (see
	// [Options.Normalisation]), unless [Options.AnyNormalisation] is set.
	ErrOtherNormalisation = errors.New("filters whose keys were made in different ways cannot be merged")
	// ErrOtherShard is returned by an insert into a shard if the key belongs to another shard, and by
	// Merge if its inputs are not all the same shard of their sets.
	ErrOtherShard = errors.New("the key belongs to another shard")
	// ErrSuperseded is the [Filter.Err] of a filter that was opened for reading, once [Build],
	// [Merge], [Repair], [Install] or [Filter.Rebuild] has put another file in the place of its
	// file (K4 of package recovery). Such a filter answers "maybe" for every key that it does not
	// find. Open the path again, or use [Follow]. A filter with [ResidencyHeap] is a copy and never
	// returns ErrSuperseded. For a filter from [OpenReaderAt], ErrSuperseded means that the reader
	// no longer has the file that was opened, or that a writer has changed the file: then every
	// answer is "maybe" (R7).
	ErrSuperseded = errors.New("another file has taken the place of this one (K4)")
	// ErrReplaced is returned by a filter that is open for writing if somebody has removed its file, or
	// put another one in its place. The filter fails with this error at the next commit at the
	// latest; from then on the error matches [ErrFailed] too. Operations since the last
	// successful commit may be lost.
	ErrReplaced = recovery.ErrReplaced
	// ErrCorrupt is returned when the file or its log is damaged, cut short, or not a
	// filter file (C5). [CorruptError] matches it and says where.
	ErrCorrupt = layout.ErrCorrupt
	// ErrVersion is returned when the file was written by a newer version of this
	// package. [VersionError] matches it and says what is unknown.
	ErrVersion = layout.ErrVersion
)

// A CorruptError says which rule of the format a file breaks, and where. It matches [ErrCorrupt].
type CorruptError = layout.CorruptError

// A ForeignError names a file that a new filter would have destroyed, but must not replace: a file at
// its path that is neither empty nor a filter; or the log or the hashes of another filter beside the
// path. Nothing has changed. See [Options.Overwrite].
type ForeignError = recovery.ForeignError

// An OpError says which operation has failed, and on which file. An error of the system that names the
// file is an [*fs.PathError] and needs no OpError.
type OpError = osfile.OpError

// A CompleteError says that a new file is complete and has its name, but that something failed
// afterwards.
type CompleteError = osfile.CompleteError

// A VersionError says what in a file is unknown to this version of the package. It
// matches [ErrVersion].
type VersionError = layout.VersionError

// A LockedError says which process keeps others from writing to a file. It matches
// [ErrLocked].
type LockedError = osfile.LockedError

// An OptionError says which field of [Options] or [OpenOptions] cannot be used, and why.
type OptionError struct {
	Field  string
	Reason string
}

func (e *OptionError) Error() string { return fmt.Sprintf("option %s: %s", e.Field, e.Reason) }

func optionError(field, format string, args ...any) error {
	return &OptionError{field, fmt.Sprintf(format, args...)}
}

// about adds the operation and the file to an error unless the error names them already. To an
// ErrLocked it adds the process that holds the lock.
func about(op, path string, err error) error {
	if errors.Is(err, ErrLocked) {
		held := new(LockedError)
		if errors.As(err, &held); !held.ReadLock {
			held.PID = osfile.LockHolder(path)
		} else if held.PID == 0 {
			held.PID = osfile.ReadLockHolder(path)
		}
		if errors.Is(err, ErrNeedsRecovery) {
			err = fmt.Errorf("%w but cannot be recovered: %w", ErrNeedsRecovery, held)
		} else {
			err = held
		}
	}
	if e := new(fs.PathError); errors.As(err, &e) && e.Path == path {
		return err
	}
	return &OpError{Op: op, Path: path, Err: err}
}
