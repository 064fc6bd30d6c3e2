package guard

import (
	"errors"
	"iter"
)

// A Store is what a guard needs from the engine that it stands in front of. The keys that the guard
// itself puts there are called entries. The engine has them under a reserved prefix, or in a bucket or
// a table of their own. Methods may be called from any goroutine.
type Store interface {
	// Entries returns the entries, in ascending order of their keys. Guards may keep entries in
	// different places, but all keep the owner in the same place; see [OwnerKey].
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

// An IdleWriter is a Store whose Write may have to wait until all readers have ended. A reader may be
// waiting for that Write in turn, so what the guard writes in the background must not wait.
type IdleWriter interface {
	// WriteIdle is Write, but returns ErrBusy and changes nothing while there is a reader.
	WriteIdle(c Changes) error
}

// ErrBusy is returned by a WriteIdle that would have to wait.
var ErrBusy = errors.New("the store has readers")

// A Snapshot is a store at some instant.
type Snapshot struct {
	// Keys yields the keys of the store without the guard's entries, each once, in any order. It is
	// called at most once.
	Keys iter.Seq2[[]byte, error]
	// Close releases the snapshot. It is called once: after Keys, if that is called.
	Close func() error
}

// OwnerKey is the key of the owner, the entry that names the filter of the guard that opened the store
// last. All guards of a store share this entry.
const OwnerKey = "o"

// OwnerName is the full name of the owner in the store, whatever [Options.Prefix] is. It begins with
// the default prefix.
const OwnerName = defaultPrefix + OwnerKey

// ErrReserved is returned by Open if the store has something at OwnerName that no guard has written.
// Open changes nothing then, and the program must move its data.
var ErrReserved = errors.New("the program uses the name OwnerName, which is reserved for the guard")

// An Entry is a key of the guard with its value. The key has at most 16 bytes. The value has at most 64
// bytes, or 8 bytes per key that a transaction puts or deletes if that is more.
type Entry struct{ Key, Value []byte }

// A Range is the entries from From up to, but not including, To.
type Range struct{ From, To []byte }

// Changes are changes to entries.
type Changes struct {
	Remove []Range // before Set
	Set    []Entry
}

// An Ordered is a Store that numbers its transactions in their order. The number of a transaction is
// its position. After a crash that loses the last transactions, later ones may reuse their positions.
// An Ordered needs no outbox if Options.Deletes is Rebuild: after a crash, Since tells which keys the
// filter lacks.
type Ordered interface {
	Store
	// Position returns a position up to which every transaction has ended its Prepare. While the store
	// is open, no call returns less than an earlier one. Position may wait for transactions whose
	// commits have begun.
	Position() (uint64, error)
	// Since yields the keys that transactions after a position have put and that the store still has.
	// It may yield other keys too. If the store may not know all of these transactions, Since yields an
	// error, such as [ErrGone]. Open calls Since at most once, after Position, and with no later
	// position than Position has returned.
	Since(at uint64) iter.Seq2[[]byte, error]
}

// A Watched is a Store that knows whether a write to it may have bypassed the guard.
type Watched interface {
	Store
	// Untouched returns nil if every transaction since the first Write went through a guard, or if
	// Since yields the keys of all transactions that did not. In doubt, and before the first Write, it
	// returns an error, such as [ErrTouched]. Open calls Untouched before Write. The first Write of an
	// Open makes the store untouched again, in the transaction of this Write or later.
	Untouched() error
}

// ErrTouched is what [Watched.Untouched] returns if a write may have bypassed the guard.
var ErrTouched = errors.New("a write to the store may have bypassed the guard")
