package recovery

// A File is a file in memory, shared with every process that maps it. What is
// stored survives the death of the process at once, and a power loss after the
// next Sync; without one it may or may not, word by word.
type File interface {
	// Words is the content. It is read with atomic loads, and changed through
	// Store alone.
	Words() []uint64
	// Store gives a word a value, atomically; in a file that others read, also
	// as they see it, after every store before it.
	Store(word, value uint64)
	// Prefetch asks for the cache line of a word that will be stored to.
	Prefetch(word uint64)
	// Sync makes durable what was stored before it was called. After an error
	// nothing is known of what has been stored since the last Sync that
	// returned none, and another Sync does not help.
	Sync() error
	Close() error
}

// A RunStorer is a File that stores to words that follow one another with one call.
type RunStorer interface {
	// StoreRun is Store of values to the words from one on, in their order.
	StoreRun(word uint64, values []uint64)
}

// storeRun gives the StoreRun of a file, or one made of Store.
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

// A LogName is one of the two names a log may have.
type LogName int

const (
	CurrentLog LogName = iota // NAME.stash
	NextLog                   // NAME.stash.new, until the superblock that it belongs to is durable
)

func (n LogName) String() string { return [...]string{".stash", ".stash.new"}[n] }

// A Volume is what the write protocol stands on: a filter file whose lock this
// process has, and its logs. [Files] is the one of the operating system; package
// crashsim has one that loses power.
type Volume interface {
	// Filter is the filter file, with the room of its checksums.
	Filter() File
	// Named fails when the filter file is not the one under its name any more.
	Named() error
	// OpenLog opens a log; the error for one that is not there is
	// fs.ErrNotExist.
	OpenLog(LogName) (File, error)
	// CreateLog makes a log of zero bytes under the name NextLog, in place of
	// one that may stand there. Bytes and name are durable. After an error that is
	// ErrNoRoom there is none, and nothing else has changed.
	CreateLog(bytes int64) (File, error)
	// KeepLog renames NextLog to CurrentLog, durably.
	KeepLog() error
	// RemoveLogs removes both.
	RemoveLogs() error
	// Random gives 64 bits that nobody can guess.
	Random() uint64
	Close() error
}
