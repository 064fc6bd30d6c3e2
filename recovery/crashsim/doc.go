// Package crashsim simulates a machine that loses power, and has an explorer that cuts the
// power at every store and every sync of a writer. Only tests use it.
//
// # The device
//
// A [Volume] is a filter file, its logs and the directory that names them. Each file has one
// content in the page cache and one on the disk, in sectors of 8, 64, 512 or 4096 bytes.
//
//	store           the cache has the new word; the sector is dirty, and remembers
//	                every content it has had since it was last clean
//	sync            the disk has what the cache has; every sector is clean. The sync
//	                may or may not include what is stored while it runs
//	sync that fails a random half of the dirty sectors reaches the disk, and the
//	                others keep their old content there; all sectors are clean, and
//	                the cache keeps the new content, as on ext4 and XFS. Once the
//	                process knows of the failure, a page of 4096 bytes without dirty
//	                sectors may come back with what the disk has, at a later event.
//	                The sync of a part of a file may fail for the whole file
//	kill -9         the cache stays as it is, dirty sectors too; the heap is gone
//	power loss      each dirty sector independently takes the content that the disk
//	                had, or any content that the sector has had since it was last
//	                clean; a clean sector has what the disk has. Of the changes to
//	                the directory since its last sync, the first few (or none, or
//	                all) are kept
//	trashed sector  in a power loss, one dirty sector of the logs or the superblocks
//	                whose content was changing becomes noise
//
// The explorer assumes that a store of an aligned word of 8 bytes is not cut in two; that a
// sync that returns no error has made everything durable; that no page falls back to what the
// disk has before a process knows of a failed sync; that a power loss does not damage a
// sector that is not being written, or is being rewritten with the content that it has; and
// that the stash, the region and the runtime page never become noise.
//
// # The explorer
//
// A trace is a list of operations of a client on a [Universe] of a few keys. Some operations
// run while a sync of earlier operations waits for the disk. An [Explorer] runs the trace,
// forks the machine at events (a store, the moments before and after a sync), crashes the fork,
// and recovers it, with crashes in that recovery and in later ones. Then it lets the client
// continue from what the recovery reports. A client whose sync has failed opens the filter
// again, on the same cache. An [Exhaustive] does all this with every short trace, at every
// event, with every possible outcome of the crash. The result of each recovery is a crash
// state. The oracles check it:
//
//	O1  The words of stash and region are, bit for bit, those that the writer had at the LSN that
//	    the recovery reports; so are the length, the user sequence and the operation number. No
//	    later LSN was durable.
//	O2  Compared with a multiset of keys, each class has as many copies, in its lines and in the
//	    stash, as it has items; and if the overflow bits of a line are clear for an item, the
//	    line has as many copies as the class has items with this home line.
//	O3  Lookups find every key that was synced and not deleted since, and every key that the
//	    recovered state has, as an item or by what the history means.
//	O4  The same holds at every instant: after each store of a writer or of a recovery that a
//	    reader can see, a lookup of such a key answers "maybe".
//	O6  Opening fails only if a sync, or a call that writes hashes, fails meanwhile. An
//	    operation fails only because of such a failure, or because the filter is full, and never
//	    panics; after a failed sync every operation fails. If hashes cannot be written, a filter
//	    that must keep its hashes goes on: a later checkpoint writes them. Other filters go on
//	    without hashes. A sealed file passes verification. An operation that changes something has a
//	    record, and changes the length and the history as it should; in particular, a delete
//	    removes no item while keys may lean on items of other keys. A file whose replacement has
//	    failed does not say that it is superseded.
//	O7  No superblock is stored over a slot where the disk, whatever the cache shows, has a
//	    half-written superblock with its checksum, since the store might complete the
//	    half-written one.
//	O8  If the filter keeps its hashes, the kept hashes of a file at rest are, as a multiset, the
//	    hashes of its items. Unless the filter must keep them, they may be lost if a sync, or a
//	    call that writes hashes, has failed. The hashes, the superblock and the writer have the
//	    position of the operations that the file has, and the right counts of left-out keys and
//	    of deletes that removed no item.
//	O9  Once a file has been opened, its name survives a power loss, even if the name was changed
//	    shortly before.
//	O10 A recovery.Copy, which begins at any event and continues at others, has the words, the
//	    length, the user sequence and the operation number that the writer had at the LSN that
//	    the copy reports, as in O1. No later LSN was durable when the copy began. A copy fails
//	    only if the file has changed.
//
// After a power loss, no reader runs before the epoch says that a recovery is in progress,
// since the file is served to no reader until then (rule R3).
//
// A lookup of O4 takes no time. There is no O5: tests of package writer try lookups that are
// interrupted between any two loads. TestSchedules, TestRecoverySchedules and TestReplaceSchedules
// try them in every way, beside some operations, and beside recoveries and replacements.
//
// # Reading a violation
//
// A violation prints the oracle that failed and what it saw; the trace, with its seed, its
// universe and its numbered operations; and the crashes that led to the violation, in order:
//
//	at operation 7, after event 12, a store to the log: kill
//
// The violation also prints a command that runs this trace first. Begin with the last crash:
// after its event the machine stops, and one recovery follows. Look up the oracle above, and in
// package recovery the rule about the step at which the machine stops.
package crashsim
