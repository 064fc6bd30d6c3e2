package guard

import (
	"errors"
	"iter"
)

// A Store is what a guard needs of the engine that it stands in front of. The keys that the guard itself
// puts there are called entries: the engine has them under a reserved prefix, in a bucket or a table
// of their own. Methods may be called from any goroutine.
type Store interface {
	// Entries returns the entries, in ascending order of their keys. If they are in one of several
	// places, the owner is in the same one for all guards: see [OwnerKey].
	Entries() ([]Entry, error)
	// Write changes entries in one transaction. When it returns nil, this transaction is durable, and
	// so is every one that was visible when Write was called.
	Write(c Changes) error
	// Snapshot returns what is visible at this instant. It must not wait for a transaction that is
	// being committed.
	Snapshot() (Snapshot, error)
	// Has reports whether a key is visible. Only [Exact] calls it.
	Has(key []byte) (bool, error)
}

// A Snapshot is a store at some instant.
type Snapshot struct {
	// Keys yields the keys of the store without the guard's entries, each once, in any order. It is
	// called at most once.
	Keys iter.Seq2[[]byte, error]
	// Close releases the snapshot. It is called once: after Keys, if that is called.
	Close func() error
}

// OwnerKey is the key of the owner: the entry that names the filter of the guard that opened the store
// last. All guards of a store have this one entry in common.
const OwnerKey = "o"

// OwnerName is where a store whose entries are under [Options.Prefix] has the owner, whatever the
// prefix. It begins with the default prefix.
const OwnerName = defaultPrefix + OwnerKey

// ErrReserved is returned by Open if there is something at OwnerName that no guard has written.
// Nothing is changed then: the program must move what it has there.
var ErrReserved = errors.New("the place of the guard's entry OwnerName is in use by the program")

// An Entry is a key of the guard with its value. The key has at most 16 bytes. The value has at most
// 64, or 8 for each key that a transaction puts or deletes.
type Entry struct{ Key, Value []byte }

// A Range is the entries from From up to, but without, To.
type Range struct{ From, To []byte }

// Changes are changes to entries.
type Changes struct {
	Remove []Range // first
	Set    []Entry
}

// A Logged is a Store that is opened by the guard, so that its write-ahead log can be read first.
// With deletes: Rebuild it needs no outbox: the log has the keys of the transactions. Transactions
// are in the log, and become visible, in the order of their commits, and a crash leaves a first part
// of that order. A commit that begins after another has ended comes after it.
type Logged interface {
	Store
	// Log calls visit with the transactions in the files of the log, in order, and stops at its first
	// error. It is called before Open. The store need not read all of these files.
	Log(visit func(LoggedTx) error) error
	// Open opens the store. It calls replay in any case, before that file leaves the log: with the
	// number of the first file of the log that the store reads, or the greatest number if it reads
	// none.
	Open(replay func(first uint64)) error
	// Append writes one entry, as Write does, but without a sync.
	Append(e Entry) error
}

// A LoggedTx is a transaction in a log. Its slices are only valid during visit.
type LoggedTx struct {
	File uint64   // of the log
	Puts [][]byte // keys
	Set  []Entry
}
