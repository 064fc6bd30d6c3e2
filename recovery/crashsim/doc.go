// Package crashsim is a machine that loses power, and an explorer that makes it
// do so at every store and every sync of a writer. Only tests use it.
//
// # The device
//
// A [Volume] is a filter file, its logs and the directory that names them. Each
// file has its content in the page cache and its content on the disk, in
// sectors of 8, 64, 512 or 4096 bytes.
//
//	store           the cache has the new word; the sector is dirty, and remembers
//	                every content it had since it was last clean
//	sync            the disk has what the cache has; every sector is clean. The sync
//	                may or may not cover what is stored meanwhile
//	sync that fails a random half of the dirty sectors reaches the disk, and the
//	                others keep their old content there; all are clean, and the
//	                cache keeps the new content: ext4 and XFS do this
//	kill -9         the cache stays as it is, dirty sectors too; the heap is gone
//	power loss      each dirty sector independently takes the content that the disk
//	                had, or any content that the sector had since it was last clean;
//	                a clean sector has what the disk has. Of the changes to the
//	                directory since its last sync, the first ones count, any number
//	trashed sector  in a power loss, one dirty sector of the logs or the superblocks
//	                whose content was changing becomes noise
//
// The explorer assumes that a store of an aligned word of 8 bytes is not cut in two;
// that a sync that returns no error is honest; that a power loss does not damage a
// sector that is not being written or is being rewritten with what it holds; and that
// the stash, the region and the runtime page never become noise.
//
// # The explorer
//
// A trace is a list of operations of a client on a [Universe] of a few keys. Some
// operations run while a sync of earlier operations waits for the disk. An [Explorer] runs
// the trace, forks the machine at events (a store, the moments before and after a sync),
// crashes the fork, recovers it, with crashes in that recovery and in later ones, and lets
// the client continue from what the recovery says. A client whose sync has failed opens the
// filter again, on the same cache. An [Exhaustive] does this with every short trace, at
// every event, with every possible outcome of the crash. Every recovery is one crash state.
// The oracles check it:
//
//	O1  The words of stash and region are, bit for bit, those of the writer at
//	    the LSN that the recovery reports; so are the length, the user sequence
//	    and the operation number. The LSN is not before one that was durable.
//	O2  Against a multiset of keys: each class has as many copies, in its lines and
//	    in the stash, as it has items; and a line whose overflow bits are clear for
//	    an item has as many copies as there are items whose home line it is.
//	O3  Every key that was synced and not deleted since is found, and so is every
//	    key that the recovered state has, as an item or by what the history means.
//	O4  The same holds at every instant: after each store that a reader can see, of
//	    a writer or of a recovery, a lookup finds the key or answers "maybe".
//	O5  Readers in other processes, which may lose the processor between any two
//	    loads, find every key that is in the filter throughout their lookup.
//	O6  Opening fails only if a sync in it fails. An operation fails only because a
//	    sync failed or the filter is full, and never panics; after a failed sync
//	    every operation fails. A sealed file verifies. An operation that changes
//	    something has a record, and changes the length and the history as it should:
//	    while a lookup of a key depends on the item of another key, a delete takes no
//	    item. A file whose replacement has failed does not say that it is superseded.
//	O7  No superblock is stored over a slot where the disk, whatever the cache shows,
//	    has a half-written superblock with its checksum: the store might complete the
//	    half-written one.
//	O8  If the filter keeps its hashes, the kept hashes of a file at rest are, as a
//	    multiset, the hashes of its items. They may be lost if a sync has failed. The
//	    hashes, the superblock and the writer are at the position of the operations
//	    that the file has, and count the keys that these operations left out and the
//	    deletes that took no item.
//	O9  A file that has been opened keeps its name, whatever a power loss does to
//	    the names that were changed before.
//	O10 A recovery.Copy, begun at any event and continued at others, has the words, the
//	    length, the user sequence and the operation number of the writer at the LSN that
//	    it reports, as O1 has it. That LSN is not before one that was durable when the copy was
//	    begun. A copy fails only if the file has changed.
//
// After a power loss there are no readers before the epoch says that a recovery
// is under way: until then the file is served to no reader (rule R3).
//
// Readers write nothing, so a lookup between stores is simulated after the fact: the
// history of the words is kept, and each load of the lookup is answered from the same
// or a later moment than the load before.
//
// # Reading a violation
//
// A violation prints the oracle that failed and what it saw; the trace, with its seed, its universe
// and its operations by number; and the crashes that led to it, the first one first:
//
//	at operation 7, after event 12, a store to the log: kill
//
// The command that it prints runs that trace before any other. Begin with the last crash. After its
// event the machine stops, and one recovery follows. Look up the oracle above, and in package recovery
// the rule about the step at which the machine stops.
package crashsim
