package layout

import "math/bits"

// An Op is what an operation means in the history of a filter that keeps its hashes (K7 in package
// hashes). The operation may have changed the items of the file in another way.
type Op uint8

// The operations, with their numbers in the log and in NAME.hashes.
const (
	Insert     Op = 1 // adds a copy
	Delete     Op = 2 // removes a copy, if there is one
	AtLeastOne Op = 3 // adds a copy if there is none: an InsertUnique
)

// May reports whether an operation of the history may change the number of items by grow.
func (op Op) May(grow int) bool {
	switch op {
	case Insert:
		return grow == 1
	case Delete:
		return grow == 0 || grow == -1
	case AtLeastOne:
		return grow == 0 || grow == 1
	}
	return false
}

// A Position is a place in a history: how many operations are before it, since the filter began, and a
// chain over them. Two histories with equal positions have the same operations up to this
// position.
type Position struct{ Number, Chain uint64 }

// After returns the position after an operation on a hash.
func (p Position) After(op Op, hash uint64) Position {
	const turn = 29 // without the rotation, the upper bits of a hash would change only the upper bits of the product
	return Position{p.Number + 1, (bits.RotateLeft64(p.Chain^hash, turn) + uint64(op)) * MixFirst}
}

// Kept is what the superblock says about the history, in a filter that keeps its hashes or is a
// replica without hashes.
type Kept struct {
	At Position
	// LeftOut counts the keys that an AtLeastOne did not insert, because a lookup already found an
	// item. Waiting counts the deletes that removed no item. Both counts begin when the base of
	// NAME.hashes is written.
	LeftOut, Waiting uint64
	// Followed is for a replica with hashes: its position in the history that it follows. (In a replica
	// without hashes, At is this position.)
	Followed Position
	// Set is for a replica, with or without hashes. While the replica applies a set of changes, Set
	// is the check of this set, and the position in the followed history stays the position before
	// the set until all changes are done. Otherwise Set is 0 or Departed.
	Set uint64
}

// Applying reports whether a replica may have some changes of a set, but not all.
func (k Kept) Applying() bool { return k.Set != 0 && k.Set != Departed }

// Counted returns how many operations of the user sequence are done, if the file has counted operations.
// While a replica, with or without hashes, applies a set of changes, the file counts the changes that
// are done (K9). These are not operations of the sequence, so Counted returns 0.
func (k Kept) Counted(operations uint64) uint64 {
	if k.Applying() {
		return 0
	}
	return operations
}

// A Mark is what a replica, with or without hashes, says about the history that it follows, from
// some commit on.
type Mark struct {
	At  Position
	Set uint64 // as in Kept
	// UserSeq is the user sequence from the Mark on, and Operations the number of operations after it.
	UserSeq, Operations uint64
}

// Departed is the Kept.Set of a replica that has had an operation of its own. Such a replica follows
// no history any more; from its next clean close on, it is not a replica. But a replica with hashes
// that has had changes stays Departed until it is rebuilt, and Kept.Followed.Number is the time of
// its departure: see Superblock.AgesFrom.
const Departed = 1<<64 - 1

// Add adds an operation on a hash to the history. The operation has changed the number of items by
// grow. An op of 0 does not belong to the history.
func (k *Kept) Add(op Op, grow int, hash uint64) {
	if op == 0 {
		return
	}
	k.At = k.At.After(op, hash)
	switch {
	case grow != 0:
	case op == AtLeastOne:
		k.LeftOut++
	case op == Delete:
		k.Waiting++
	}
}
