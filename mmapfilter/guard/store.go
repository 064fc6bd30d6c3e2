package guard

import (
	"errors"
	"iter"
)

// A Store is what a guard needs of the engine that it stands in front of. The keys that the guard itself
// puts there are called entries: the engine has them under a reserved prefix, in a bucket or a table
// of their own. Methods may be called from any goroutine.
type Store interface {
	// Entries returns the entries, in ascending order of their keys. Guards may have their entries
	// in different places, but all have the owner in the same place: see [OwnerKey].
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

// An Ordered is a Store that numbers its transactions in their order: the number is the position of a
// transaction. A crash that loses the last transactions may make their positions come again. With
// deletes: Rebuild, an Ordered needs no outbox: it tells what the filter lacks after a crash.
type Ordered interface {
	Store
	// Position returns a position. Every transaction up to this position has ended its Prepare. While
	// the store is open, Position never returns less than before. It may wait for transactions whose
	// commits have begun.
	Position() (uint64, error)
	// Since yields the keys that transactions after a position have put and that the store still
	// has. It may yield other keys too. If the store may not know all of these transactions, Since
	// yields an error, such as [ErrGone]. Open calls Since at most once, after Position, with a
	// position that is no later.
	Since(at uint64) iter.Seq2[[]byte, error]
}

// A Watched is a Store that knows whether something has written to it past the guard.
type Watched interface {
	Store
	// Untouched returns nil if every transaction since the first Write was made with a guard, or if
	// Since yields the keys of all others. In doubt, and before there was a Write, it returns an error,
	// such as [ErrTouched]. Open calls it before Write. The first Write of an Open makes the store
	// untouched again, in its transaction or later.
	Untouched() error
}

// ErrTouched is what [Watched.Untouched] returns if nobody knows what was written past the guard.
var ErrTouched = errors.New("something may have written to the store past the guard")
