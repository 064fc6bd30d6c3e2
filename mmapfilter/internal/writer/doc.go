// Package writer writes to a filter: it turns inserts and deletes into changes of words, logs them,
// shows them to lookups of this process at once, and commits them. Work that takes long runs beside
// operations.
//
// # Who does what
//
//	package place      where an item goes; which words change
//	Writer             when: operations, segments, commits, checkpoints, and locks
//	Overlay            the changes that are not in the file yet
//	Work               what runs beside operations: timed commits, checkpoints, a larger log
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
// The newest state is the mapped file with the pending words over it. Most lines have no pending
// words, so a lookup looks in the file first and then asks the overlay whether it has words of the
// block. As long as the overlay stays the same, commits store only words of its committing segment,
// which gets no more words. So a block of which the overlay has no words does not change, whether the
// lookup asks the overlay before it reads the block or after.
//
// # Locks
//
// Locks are taken in the order applying, checkpoints, commits, mu. A commit holds commits and mu while
// it ends the segment, and then only commits while it waits for the disk, so that operations go on in
// the next segment. Before it waits, the first commit to a sealed file takes mu again for each step of
// DropLargePages. A checkpoint is a commit that also holds checkpoints; then it holds only that lock
// while it writes the region, so that operations and commits go on in the other half of the log.
//
// # Pending words
//
// The mapped file holds only durable state (rule W1 of package recovery). So the words of the region
// that an operation changes go to a table in memory, where lookups of this process see them at once,
// and to the file when the log is durable.
//
// There are at most two tables. One has the words of the open segment, which takes operations.
// The other has the words of the previous segment, while this segment is being committed:
//
//	            lookups
//	               │
//	               ▼
//	 Overlay   active ─────▶ committing ─────▶ the mapped file
//	           open          being made        durable
//	           segment       durable
//
//	Over   at the first operation after the file had all words
//	Next   when the segment ends: active becomes committing
//	Drop   when committing has been stored to the file
//
// An Overlay never changes its tables; Next and Drop return a new one. So a lookup loads one
// pointer and uses the Overlay that it got.
//
// A table has whole blocks of 64 bytes. When a block enters the table, it gets the newest values of
// all its words. Words that no operation changes stay equal to the file, since the file changes only
// where a word is pending.
//
// One goroutine at a time stores words. Meanwhile any number of goroutines look words up, without a
// lock: a block enters the table with its values, a word gets a new value in one store, and no block
// is removed. When a segment is in the file, its whole table is dropped.
//
// # Beside operations
//
//	commit       when the interval since the first pending operation is over, or at once if the open
//	             segment has become large
//	checkpoint   when the half of the log that is in use is nearly full
//	larger log   early enough that the next checkpoint finds it ready
//	reading      when a sealed file is written to: its large pages are dropped (R4), and what was in
//	             memory is read again
//
// The Writer knows what is due, and asks its Work to do it after an operation. The Work only starts
// goroutines, at most one of each kind, with an exception: the commit at the end of an interval may
// start during another commit, and the locks of the Writer order them. A checkpoint that becomes due
// during another checkpoint follows it, in the same goroutine. After a checkpoint has failed, the next
// one begins only when an operation asks for it, and none begins if the writer has failed (W8).
//
// The large pages must go before the first store, so no separate goroutine drops them: the first
// operation drops one part, and the first commit drops the other parts, between operations. Only
// reading the file again runs beside operations.
//
// # Faults
//
// A fault in a mapped file would end the process. So all code that writes runs under Catch: the
// goroutines here, and the operations of the caller. After a fault, or a panic, the writer has failed
// (W8). The goroutine that reads the file again catches its own faults, and ends. The caller must
// protect lookups.
//
// # The end
//
// Close and Retire first wait for all work in progress. Lookups may go on: after KeepMapping, the
// mapping that lookups load from stays until the Work is garbage-collected.
//
// # Replacements
//
// A rebuild builds a new file while operations go on. A tap lists the operations of the old file, and
// Replay does them in the new file, until few are left. Then Replace switches to the new file:
// operations stop for a moment (the handover), Replay does the last ones, the new file becomes durable
// and gets the name, and operations go on in the new file.
//
// Replace takes the locks checkpoints, commits and mu of the old writer, and then the same three of
// the new one. It holds all six while it waits for the disk. Durable takes none of the six, only the
// lock handover, which Replace takes last and holds for the shortest time.
package writer
