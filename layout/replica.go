package layout

import "bytes"

// IsReplica reports whether the file is a replica without hashes: it has the items of another filter's
// history up to the position of the file.
func (s *Superblock) IsReplica() bool { return s.ReadOnlyCompat()&replicaFlag != 0 }

// Follows reports whether the file is a replica with hashes: it follows the history of another filter,
// or has followed it until its first operation of its own (see Kept.Set).
func (s *Superblock) Follows() bool { return s.Compat()&followsFlag != 0 }

// Source returns the descent of the history that the file follows, besides its own.
func (s *Superblock) Source() uint64 { return s.u64(offSource) }

// AgesFrom returns a time, or 0. An item with an earlier time in NAME.hashes may have been inserted as
// late as this time. The reason: if the followed filter deletes a key and inserts it again within one
// set of changes, the set does not have the key, and the item in the replica keeps its earlier time.
func (s *Superblock) AgesFrom() uint64 {
	switch k := s.Kept(); {
	case s.Follows() && k.Set == Departed:
		return k.Followed.Number
	case !s.Follows() || s.CheckpointLSN() == 0: // it has had no changes
		return 0
	}
	return s.LastTime()
}

// offKeptSet returns the offset of Kept.Set. A file that keeps its hashes cannot use offSet, because
// programs that do not know followsFlag read the file too, and accept only 0 at offSet.
func (s *Superblock) offKeptSet() int {
	if s.Follows() {
		return offFollowedSet
	}
	return offSet
}

// HasHistory reports whether the file keeps its hashes or is a replica without hashes: then its commits
// name a position.
func (s *Superblock) HasHistory() bool { return s.KeepsHashes() || s.IsReplica() }

// SetReplica makes the file a replica without hashes, at a position of a history.
func (s *Superblock) SetReplica(descent uint64, at Position) {
	s.put64(offReadOnlyCompat, s.ReadOnlyCompat()|replicaFlag)
	s.SetDescent(descent)
	s.SetKept(Kept{At: at})
}

// SetSource makes a file with hashes follow the history that has this descent, from Kept.Followed on.
// Call it before SetKept.
func (s *Superblock) SetSource(descent uint64) {
	s.put64(offReadOnlyCompat, s.ReadOnlyCompat()|followsFlag)
	s.put64(offCompat, s.Compat()|followsFlag)
	s.put64(offSource, descent)
}

// ForgetSource makes a file that keeps its hashes follow no other history.
func (s *Superblock) ForgetSource() {
	s.put64(offReadOnlyCompat, s.ReadOnlyCompat()&^followsFlag)
	s.put64(offCompat, s.Compat()&^followsFlag)
	clear(s[offSource:offReservedEnd])
}

// historyUse checks the fields that only files with hashes, and replicas without hashes, have. It
// returns a field that breaks F4, and what is wrong with it, or "" if all fields are right.
func (s *Superblock) historyUse() (field int, what string) {
	k := s.Kept()
	if history := s.Descent() != 0 || k != (Kept{}); !s.KeepsHashes() && (history && !s.IsReplica() ||
		s.Hashes() != (Hashes{}) || k != (Kept{At: k.At, Set: k.Set}) || s.LastTime()|s.ExpireAfter()|s.ExpiredBefore()|s.KeepChanges() != 0) {
		return offHashesIdentity, "the file keeps no hashes, but has a field of hashes or of a history that must be 0"
	}
	if s.KeepsHashes() && s.IsReplica() {
		return offReadOnlyCompat, "the file keeps hashes, but has the flag of a replica without hashes"
	}
	if follows := s.ReadOnlyCompat()&followsFlag != 0; follows != s.Follows() || follows && !s.KeepsHashes() {
		return offCompat, "the file follows another history, but keeps no hashes, or has only one of the two flags"
	}
	if s.u64(offSet) != 0 && !s.IsReplica() {
		return offSet, "the file applies a set of changes, but is not a replica without hashes"
	}
	if !s.Follows() && !bytes.Equal(s[offSource:offReservedEnd], zeros[offSource:offReservedEnd]) {
		return offSource, "the file follows no other history, but has a position in one"
	}
	return 0, ""
}
