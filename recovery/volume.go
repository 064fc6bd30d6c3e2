package recovery

import "github.com/mmapfilter/mmapfilter/layout"

// A File is a file in memory, shared with every process that maps it. A stored word
// survives the death of the process at once. It survives a power loss once the next Sync
// has returned; before that, each word may or may not survive one.
type File interface {
	// Words returns the content. Read it with atomic loads, and change it only through
	// Store.
	Words() []uint64
	// Store sets a word atomically. If other processes read the file, they see the
	// stores in order.
	Store(word, value uint64)
	// Prefetch prefetches the cache line of a word that will be stored to.
	Prefetch(word uint64)
	// Sync makes everything stored before the call durable. If it fails, anything stored
	// since the last successful Sync may or may not be durable, and another Sync does
	// not help.
	Sync() error
	Close() error
}

// A RangeSyncer is a File of which a part can be made durable.
type RangeSyncer interface {
	// SyncRange is Sync for some words and all words on the same pages. Stores to other
	// pages may or may not become durable.
	SyncRange(word, words uint64) error
}

// syncRange calls the SyncRange of a file, or Sync.
func syncRange(f File, word, words uint64) error {
	if f, ok := f.(RangeSyncer); ok {
		return f.SyncRange(word, words)
	}
	return f.Sync()
}

// A RunStorer is a File that stores to consecutive words in one call.
type RunStorer interface {
	// StoreRun stores values, in order, to the words from word on.
	StoreRun(word uint64, values []uint64)
}

// storeRun returns the StoreRun of a file, or a function that calls Store for each word.
func storeRun(f File) func(word uint64, values []uint64) {
	if f, ok := f.(RunStorer); ok {
		return f.StoreRun
	}
	return func(word uint64, values []uint64) {
		for i, v := range values {
			f.Store(word+uint64(i), v)
		}
	}
}

// closeLog closes a log, which may be nil.
func closeLog(log File) error {
	if log == nil {
		return nil
	}
	return log.Close()
}

// A LogName is one of the two names that a log may have. Its String is the suffix to the name
// of the filter file.
type LogName int

const (
	CurrentLog LogName = iota // NAME.stash
	NextLog                   // NAME.stash.new: a larger log, until the superblock that names it is durable
)

func (n LogName) String() string { return [...]string{".stash", ".stash.new"}[n] }

// A HashFile is the file NAME.hashes or NAME.apply, which consists of pages.
type HashFile interface {
	Pages() (uint64, error)
	// ReadPages fills words with consecutive pages, from page number first on.
	ReadPages(first uint64, words []uint64) error
	// WritePages writes consecutive pages, which survive a power loss after the next Sync.
	WritePages(first uint64, words []uint64) error
	// Truncate cuts the file off after that many pages.
	Truncate(pages uint64) error
	Sync() error
	Close() error
}

// A HashesName is one of the two names that a file of hashes may have. Its String is the suffix
// to the name of the filter file.
type HashesName int

const (
	CurrentHashes HashesName = iota // NAME.hashes
	NextHashes                      // NAME.hashes.new: the hashes of a new filter, until the filter has its name
)

func (n HashesName) String() string { return [...]string{".hashes", ".hashes.new"}[n] }

// A Volume is a filter file, whose lock this process has, and the files beside it. The write
// protocol runs on a Volume. Package osfile has the Volume of the operating system; package
// crashsim has a Volume that loses power.
type Volume interface {
	// Filter returns the filter file, including the room for its checksums.
	Filter() File
	// Catch runs f, which uses the mapped files. If a load or store in them is a fault, Catch calls
	// failed and returns the fault as an error. If f panics for another reason, Catch calls failed
	// and panics too.
	Catch(f func(), failed func(error)) error
	// RequiresHashes reports whether operations fail if their hashes cannot be kept. Such
	// operations can be tried again.
	RequiresHashes() bool
	// Now returns the time in nanoseconds since 1970.
	Now() uint64
	// Random returns 64 unpredictable bits.
	Random() uint64
	// DropLargePages drops a part of the filter file, from an offset on, from the page cache, as far
	// as the system allows. The part comes back in small pages (R4). DropLargePages returns the offset
	// of the next part, or 0 at the end of the file, and how many bytes of the part were in memory.
	// Nobody may store to the file meanwhile.
	DropLargePages(from int64) (next, dropped int64)
	Close() error

	// The names of the files.

	// Whole returns layout.ErrCorrupt if the filter file is shorter than when it was opened.
	Whole() error
	// Named fails if the name of the filter file belongs to no file or to another file.
	Named() error
	// TakePlace gives this filter, its log and its hashes the names of another filter of this
	// process. The other filter loses its names. placed reports whether this filter has the
	// name. If placed is true, an error means that the new name may not survive a power loss.
	TakePlace(old Volume) (placed bool, err error)
	// SyncNames makes all changes of names durable, whichever process made them.
	SyncNames() error

	// The logs, under the two names that a log may have.

	// OpenLog opens a log. If there is none, the error is fs.ErrNotExist.
	OpenLog(LogName) (File, error)
	// CreateLog creates a log named NextLog, filled with zero bytes. It replaces an older log
	// of this name. Its bytes and its name are durable. If the error is ErrNoRoom, there is
	// no log of that name and nothing else has changed.
	CreateLog(bytes int64) (File, error)
	// KeepLog renames NextLog to CurrentLog, durably.
	KeepLog() error
	// RemoveLogs removes both logs, durably.
	RemoveLogs() error

	// The files of hashes, under the two names that one may have.

	// OpenHashes opens a file of hashes. If there is none, the error is fs.ErrNotExist.
	OpenHashes(HashesName) (HashFile, error)
	// KeepHashes renames NextHashes to CurrentHashes, durably.
	KeepHashes() error
	// RemoveHashes removes a file of hashes.
	RemoveHashes(HashesName) error

	// The set of changes that a replica is applying, NAME.apply.

	// CreateSet creates an empty file, which replaces an older set.
	CreateSet() (HashFile, error)
	// OpenSet opens the set of changes for reading. If there is none, the error is
	// fs.ErrNotExist.
	OpenSet() (HashFile, error)
	// RemoveSet removes the set, if there is one.
	RemoveSet() error
}

// ErrUnusedLog is returned for a log whose headers were never written. A process that died while
// creating it may have left such a log. The log may lack blocks, and on some systems a load from a
// missing block is a fault if the disk is full.
var ErrUnusedLog = &layout.CorruptError{Region: layout.RegionLog, Rule: "L1", What: "a log that was never used"}
