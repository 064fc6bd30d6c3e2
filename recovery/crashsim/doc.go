// Package crashsim is a machine that loses power, and an explorer that makes it
// do so at every store and every sync of a writer. It is evidence, not part of
// the library: only tests use it.
//
// # The device
//
// A [Volume] is a filter file, its logs and the directory that names them. Each
// file has its content in the page cache and its content on the disk, in
// sectors of 8, 64, 512 or 4096 bytes.
//
//	store           the cache has the new word; the sector is dirty, and remembers
//	                every content it had since it was last clean
//	sync            the disk has what the cache has; every sector is clean. What is
//	                stored meanwhile is covered by it, or is not
//	sync that fails a random half of the dirty sectors reaches the disk, of the
//	                others the disk keeps what it had; all are clean, and the
//	                cache keeps the new content: ext4 and XFS do this
//	kill -9         the cache stays as it is, dirty sectors too; the heap is gone
//	power loss      each dirty sector by itself is what the disk had, or any
//	                content since it was last clean; a clean one is what the disk
//	                has. Of the names made, moved and removed since the last sync
//	                of the directory, the first few count
//	trashed sector  with a power loss, one of the dirty sectors of the logs or of
//	                the superblocks whose content was changing is noise
//
// Assumed of the medium: a store of an aligned word of 8 bytes is not cut in two;
// a sync that returns no error is honest; a power loss does no harm to a sector
// that is not being written, nor to one that is written with what it holds; the
// stash, the region and the runtime page are never noise.
//
// # The explorer
//
// A trace is a list of operations of a client on a [Universe] of a few keys: some
// of them go on while a sync of others waits for the disk. An [Explorer] runs it,
// forks the machine at events (a store, the moments before and after a sync),
// crashes the fork, recovers it, with crashes in that recovery and in the ones
// after it, and lets the client continue from what the recovery says. A client
// whose sync has failed opens the filter again, on the same cache. An
// [Exhaustive] does so with every short trace, at every event, in every way in
// which a crash may come out. Every recovery is one crash state, and is checked:
//
//	O1  The words of stash and region are, bit for bit, those of the writer at
//	    the LSN that the recovery reports; so are the length, the user sequence
//	    and the operation number. The LSN is not before one that was durable.
//	O2  By a multiset of keys: each class has as many copies, in its lines and in
//	    the stash, as it has items; and a line whose overflow bits are clear for
//	    an item has as many copies as there are items whose home it is.
//	O3  Every key that was synced, and for which no delete was issued since, is
//	    found; and every key that the recovered state has.
//	O4  The same at every instant: after each store that a reader can see, of a
//	    writer and of a recovery, a lookup finds it or answers "maybe".
//	O5  Readers of other processes, which lose the processor between any two
//	    loads: what is in the filter from before such a lookup to after it is
//	    found.
//	O6  Opening fails only where a sync fails in it; no operation fails or panics
//	    but for that, and for a full filter; after a sync that failed every one
//	    does. A sealed file verifies. An operation that changes something has a
//	    record, and moves the length as it should.
//
//	O7  No superblock is stored over a slot of which the disk has, under whatever
//	    the cache shows, another one half written with its checksum: it might
//	    complete that one.
//
// After a power loss there are no readers before the epoch says that a recovery
// is on: until then the file is served to nobody (rule R3).
//
// Readers write nothing, so that a lookup between stores is simulated after the
// fact: the history of the words is kept, and each load of the lookup is
// answered from a later moment of it than the load before.
package crashsim
