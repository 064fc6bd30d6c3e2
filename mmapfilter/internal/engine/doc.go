// Package engine writes to a filter: it turns inserts and deletes into changes of words, logs
// them, shows them to this process's lookups at once, and commits them.
//
// # Who does what
//
//	package place      where an item goes; which words change
//	package engine     when: operations, segments, commits, checkpoints, and locks
//	package pending    the changes that are not in the file yet
//	package recovery   the order of writes to log and file: the protocol
//
// # The life of a change
//
//	Insert, Delete   the placer plans; the operation collects the stores in order
//	finish           the log takes them; publish puts them into the pending words,
//	                 where lookups of this process see them
//	endSegment       the open segment ends; the next one takes operations
//	Harden           (recovery) the log is durable, then the stores go to the file,
//	                 where lookups of other processes see them
//	dropPending      the pending words of the segment are no longer needed
//
// An operation changes nothing before it is complete. If it finds no room, it changes
// nothing at all (C3).
//
// # Lookups
//
// The newest state is the mapped file with the pending words over it. Most lines have nothing
// pending, so a lookup looks in the file first and then asks whether that was all. While the
// overlay is the same, only words of its committing segment are stored to the file, and that
// segment gets no more words. So if the overlay has no word of a block, whether asked before the
// block is read or after, the block does not change meanwhile: it is as it was when the overlay
// was asked.
//
// # Locks
//
// Locks are taken in the order checkpoints, commit, mu. A commit holds commit and mu to end the
// segment, and then commit alone while it waits for the disk: meanwhile operations go on in the
// next segment. The first commit to a sealed file takes mu again and again before that, for one
// step of Unsealing at a time. A checkpoint is a commit that also holds checkpoints, and goes on
// holding that alone while it writes the region: meanwhile operations and commits go on in the
// other half of the log.
//
// # Handovers
//
// A rebuild makes a new file while operations go on. A tap takes down the operations of the old one,
// and Replay does them in the new one, until few are left. Then, for a moment, none can proceed, and
// Replay does the rest. From that instant on each operation is done in both files (double), until the
// new one is durable and has the name.
//
// A handover takes the locks of two writers: checkpoints of the new one and of the old one, commit of
// the new one and of the old one. It holds all four while it waits for the disk. Operations go on:
// they take mu of the old one, and then that of the new one. An operation that would have to wait for
// a commit or a checkpoint returns ErrAgain instead.
package engine
