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
// overlay is the same, commits store only words of its committing segment, which gets no more
// words. So a block of which the overlay has no word does not change meanwhile, whether the
// lookup asks the overlay before it reads the block or after.
//
// # Locks
//
// Locks are taken in the order checkpoints, commits, mu. A commit holds commits and mu to end the
// segment, and then commits alone while it waits for the disk: operations go on in the next
// segment. Before it waits, the first commit to a sealed file takes mu again for each step of
// Unsealing. A checkpoint is a commit that also holds checkpoints, and then holds that lock alone
// while it writes the region: operations and commits go on in the other half of the log.
//
// # Replacements
//
// A rebuild makes a new file while operations go on. A tap lists the operations of the old file, and
// Replay does them in the new one, until few are left. Then Replace has the new file take over:
// operations stop for a moment (the mark), Replay does the rest, the new file becomes durable and gets
// the name, and operations go on in it.
//
// Replace takes the locks of the old writer, checkpoints, commits and mu, and then those of the new one.
// It holds all six while it waits for the disk.
package engine
