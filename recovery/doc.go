// Package recovery owns the order of all writes to the files of a filter. The order ensures that no
// crash loses a synced key or leaves half a filter under a name that a reader opens. The package
// sees these files as a [Volume]: package osfile has the Volume of the operating system, and
// package crashsim a Volume that loses power. Package layout defines the terms: NAME.stash is the
// log, and the stash is a part of the filter file.
//
// # The fault model
//
// The protocol below survives each of these, at any instant, including during the
// recovery from an earlier one:
//
//   - The process dies (kill -9, a panic, an out-of-memory kill). What it stored to
//     mapped files stays in the page cache. Its heap is gone.
//   - The power fails. Each sector that was stored to since the last sync of its file keeps its
//     old content on the disk, or takes any state that it has had since, independently of other
//     sectors, because the kernel writes pages whenever it likes. Writing a page is not atomic: it
//     can be cut at any multiple of 8 bytes. A sector of the log or of the superblocks that was
//     being written can contain garbage.
//   - A sync fails (fsync, fdatasync, msync). Some sectors are durable and others are not,
//     but the system considers all of them written. The page cache may differ from the
//     disk, and a second sync does not help. Once the sync has returned, a page that it has
//     dropped may leave the cache at any time, and come back with what the disk has. A sync of a
//     part of a file may also drop pages elsewhere, which the system has failed to write by itself.
//   - A power loss undoes the latest unsynced changes to a directory. Files are created,
//     renamed and removed in the order of the calls, and these changes are durable once
//     their directory is synced.
//
// The protocol relies on these assumptions:
//
//   - A sync of a file that returns no error has made all of its bytes durable, and a sync
//     of a part of a file has made that part durable.
//   - Writing a sector damages no bytes but those written ("powersafe overwrite"). In the
//     stash and the region it damages no byte at all: an aligned word of 8 bytes has its
//     old value or its new one, in memory and on the disk. Rewriting a sector with what it
//     already holds does not damage it.
//   - A page that the system fails to write stays in the cache until a sync has returned the error,
//     and the epoch is odd (W8). Otherwise a reader could find an earlier state of some lines.
//   - The file system is local, and does all this for shared mappings too. On a copy-on-write file
//     system even a store to an allocated file takes new blocks, so a full disk can end the process
//     (SIGBUS). See osfile.Warning.
//   - No other program writes to the files. The lock excludes only writers that use this package.
//
// Package crashsim makes all of this happen, at every store and at every sync.
//
// # Writing
//
//	W1  The mapping of the filter file holds only durable state. An operation is a list of words of
//	    the filter file and their new values. Appending an operation stores only to the log. The
//	    stores of an operation to one block of 64 bytes are one record. (Writer.Append)
//	W2  The log is a mapped file of fixed size, which is allocated, filled with zero bytes and synced
//	    before its first use. Records are chained: the check of each record covers its content, the
//	    check of the record before, its LSN and the salt of the generation. Before the first record
//	    of an operation is stored, the log has room for all records of the operation. A bit marks the
//	    last record of an operation; recovery replays only whole operations. An append is a few
//	    stores to memory, and survives the death of the process.
//	W3  A commit stores a commit record, makes the log durable, stores a promise that the log is
//	    durable, and only then stores the words of the records to the mapping, in order. Only after
//	    that does it return to its caller. The next record goes to a fresh page, so a sector with
//	    durable records is not stored to again in its generation. (Writer.EndSegment, Writer.Harden)
//	W4  Two kinds of stores happen only while the removal counter of their block is odd: a store that
//	    removes a fingerprint that a lookup may be reading, and a store to a bucket that spans
//	    several words which mean something only together. All other stores only add, or clear
//	    overflow bits and group marks that no lookup needs. A counter that an operation makes odd
//	    stays odd until all words of the operation are stored; between operations counters are even.
//	    An item that moves to another block is stored at its destination before it leaves its source.
//	    Within a block of 64 bytes, whose words share a counter, words are stored in ascending order.
//	    So readers without a lock miss no item (package layout, "Reading beside a writer").
//	    (Writer.apply)
//	W5  The log has two halves, one for even and one for odd generations. A checkpoint begins at the
//	    end of a segment: later records go to the other half, as the next generation, and are chained
//	    to the earlier ones (Writer.BeginCheckpoint). Once the segments of the old generation are
//	    hardened, the checkpoint makes durable, in this order: the header of the next generation; the
//	    stash and the region, in the order of the file; and the next superblock, which has the salt
//	    of the next generation (Writer.EndCheckpoint). Only then may a later generation overwrite the
//	    old one. Operations and commits go on all the time. No log is truncated. A larger log is a
//	    new file; it is durable before a generation begins in it, and is renamed to NAME.stash once
//	    the superblock has the salt of that generation. (Writer.GrowLog)
//	W6  Recovery, under the lock, takes these steps in order. It reads to its end the log of the
//	    generation that the superblock names, and then the log of the next generation if the records
//	    go on there. It refuses a log that ends before an LSN that is known to have been durable. It
//	    syncs the directory, in which the dead writer may have changed names (K3). If the log has a
//	    record, it makes the epoch odd. It stores the superblock again in its slot, and syncs it. If
//	    the dead writer made no commit, it makes the system drop large pages of the file (R4). In any
//	    case the epoch is now made odd. It stores the log again, syncs it, and reads it once more,
//	    since pages may have left the cache meanwhile, even the header of a larger log. For every
//	    word in the log, it stores the last value to the mapping, whatever the mapping shows. It
//	    stores the removal counters again, odd ones incremented, and makes the epoch even. Then it
//	    finishes like a clean close. (Writer.recover)
//	W7  Opening a file creates nothing, but removes a log that an interrupted close left. The first
//	    operation makes durable, in this order: the superblock that opening found, the new log, and a
//	    superblock in state live. A clean close makes the mapping durable, then a superblock in state
//	    clean, and then removes the log. (Writer.Begin, Writer.Clean)
//	W8  Any error of a call that writes ends the writer: from then on every call returns ErrFailed,
//	    and the next open recovers. If a sync of a live file fails, the epoch is odd until then, since
//	    readers may find an earlier state of some lines. Nothing is retried, with two exceptions. If a
//	    larger log finds no room on the disk, it is removed, since nothing depends on it yet, and the
//	    log keeps its size until a later checkpoint finds room. A checkpoint that cannot append its
//	    hashes to NAME.hashes is tried again (K2). (Writer.Fail, Writer.GrowLog, Writer.EndCheckpoint)
//	W9  Only one function stores to the stash and the region: Writer.put. Commits (W3) and recoveries
//	    (W6) use it to store what durable records say. DiscardLog has no records, since the log is
//	    lost: it repairs what the file happens to hold. Only one file of the module uses package
//	    unsafe (words.go). Lookups and planning load from a second mapping of the file, which is
//	    read-only. A commit, the end of a checkpoint, and every step that creates, renames or removes
//	    a log first check that the name still leads to this file; if it does not, the writer ends.
//
// Why this is enough: by W1 and W3, a word of the mapping changes only when the record of the
// change is durable. So whichever version of a page the disk has, each word of the page has its
// value at the checkpoint or a value from a durable record. Replaying the durable log from the
// checkpoint gives each word its last value. So recovery restores, bit for bit, the result of the
// operations up to the end of the log. The explorer of package crashsim checks exactly this.
//
// Why a checkpoint need not stop the writer: until its superblock is durable, the old superblock
// leads to the logs of both generations, and no record of either log is overwritten. Once the new
// superblock is durable, only the records of the next generation count, and every word that the old
// generation stored to the region is durable. The words that the next generation has stored
// meanwhile may be on the disk or not; the paragraph above covers both cases. A power loss may keep
// records of the next generation and tear the end of the old log. Recovery then ignores the records
// of the next generation. This loses nothing that was promised: a segment of the next generation is
// hardened after all segments of the old one, so no commit of such a segment has returned.
//
// # Kept hashes
//
// A filter may keep the history of its hashes in NAME.hashes (package hashes, with rules K1 and K7):
//
//	K2  Between checkpoints, the log has the end of the history: the last record of an operation has
//	    the hash and what the operation means. A checkpoint appends the hashes and meanings of the
//	    generation that ended to NAME.hashes, and makes them durable before the superblock that
//	    counts their pages. A clean close, Seal and recovery do the same. So a commit needs no
//	    further sync. Pages that no superblock counts, which a writer that died has left, are cut off
//	    before the first page is appended. No page that the newest durable superblock counts is
//	    written again: a last page that is not full is written as page 1 or page 2, in turn. If a
//	    call on NAME.hashes fails, nothing has changed, and the checkpoint is tried again, since the
//	    log still has the hashes. Once the log is full, operations fail with the error of the disk
//	    until there is room. But a filter goes on without its hashes if it neither grows by itself,
//	    nor lets items expire, nor is opened with RequireHashes. So does a filter whose NAME.hashes
//	    is not the file that its superblock names. From the next superblock of such a filter on, no
//	    page counts. A commit never has an earlier time than the commit before it, whatever the clock
//	    says. (keeper, Writer.now)
//
// # A file that takes the place of another
//
//	K3  The new file is complete, beside the old one, under other names. At one instant, called the
//	    handover, the new file has all operations of the old file. If the new file is built from
//	    hashes, the two histories then have the same position and chain. From the handover on, all
//	    operations and syncs wait. If a fault has cut off an operation in the old file, nothing is
//	    replaced. The new file and its log become durable. Then its log is renamed to NAME.stash.new,
//	    its hashes to NAME.hashes.new, and the filter file to NAME; then the log to NAME.stash and
//	    the hashes to NAME.hashes (K8). Then the directory is synced, and from now on the new file
//	    alone takes operations and syncs. Before the third of these renames the old file has the name
//	    NAME, and has its log and its hashes. After the third rename the new file has the name NAME,
//	    and its log and its hashes can be found by either of their names. Both files have all
//	    operations, and in both everything that a sync has promised is durable. (Writer.Replace of
//	    package writer, Writer.TakePlace, Files.TakePlace)
//	K4  The old file is live. Before the first rename its epoch becomes Superseded (all bits set). So
//	    readers that have the old file open say "maybe" from then on, before the new file can get an
//	    item that the old one lacks. Nobody recovers a file that has lost its name: whoever opens a
//	    file for writing first takes the lock, and then checks the name. If the writer dies before
//	    the third rename, the next writer recovers the old file under its name, and lookups say
//	    "certainly not" again. If one of the three renames fails, the writer stores the earlier epoch
//	    again, and lookups say "certainly not" again at once. (Writer.TakePlace) But a file that a
//	    Draft replaces is at rest, and no recovery would make its epoch even again. So its epoch
//	    becomes Superseded only once the directory is synced and the file cannot get its name back,
//	    but before the lock of the new file is released and a writer can open the new file. If the
//	    process is killed between the rename and this store, the readers of the old file do not learn
//	    that it was replaced. Nor do they if the old file has another name, under which it may be a
//	    backup; nor on a system that has no writers or does not count the names of a file (Unix does
//	    count them). If the sync of the directory fails, the epoch becomes Superseded nevertheless.
//	    If the power fails after that, the old file may have its name again, and says "maybe" until
//	    it is built again. (Supersede of package osfile)
//	K8  If changes are kept (superblock, offset 520), a NAME.hashes that is replaced is kept as well:
//	    it is renamed to NAME.past. If there is a NAME.past already, that file is first renamed to
//	    NAME.past.X, where X is the 16 digits of its identity. The header of a file of hashes has the
//	    identity of the file that it replaced, so each file leads to the file before it. The writer
//	    removes a file that was replaced longer ago than changes are kept. Of the operations in a
//	    replaced file, those up to the position of the base of the next file count; page 1 or 2 may
//	    have the last of them. (PastHashes; package osfile: replaceHashes, OpenHistory, ForgetPast)
//
// # The changes of another filter
//
// A replica, with or without hashes, has the items that the history of another filter means at a
// position. A set of changes leads from this position to a later one. While the replica has done
// only some changes of a set, the bytes of the set are in NAME.apply (SetWriter). A replica with
// hashes also has a history of its own, in which each change is an operation.
//
//	K9  The changes of a set are done in a fixed order: first all deletes, then all inserts, both in
//	    the order of the set. NAME.apply and its name are durable before a commit names the check of
//	    the set and sets the count of operations to 0. The first change is done after this commit. So
//	    the count of operations says how many changes are done, however much of the log survives, and
//	    no change is done twice. Callers that ask for the count meanwhile get 0. The commit after the
//	    last change names no set, and has the position to which the set leads. Only then may
//	    NAME.apply be removed. If the writer dies before this commit, the next writer goes on with
//	    the same set. It refuses any other set, even one that leads further, since the changes of
//	    another set have another order. If NAME.apply is lost or has another set, the replica takes
//	    no further changes. Before its first operation of its own, a replica makes a commit that says
//	    that it departs from the followed history (layout.Departed). So no crash leaves a file that
//	    has both an operation of its own and the position of a replica. Nobody copies the lines of a
//	    file that names a set. In a replica without hashes, the commit record has the set and the
//	    position in the followed history. In a replica with hashes, the commit record has a position
//	    in its own history; so the set and the followed position are in a mark record, the last
//	    record of the segment, which counts if the commit counts. A file that takes the place of such
//	    a replica (K3), perhaps between two changes of a set, goes on with the same set, at the same
//	    change: its last commit before it gets the name has the count of operations of the old file,
//	    and a mark record with the set and the position; or it says that the old file has departed.
//	    (Writer.Mark, Writer.NewSet, Copy.End, layout.Kept.Counted, and Writer.follow of package
//	    writer)
//
// # States
//
//	            Begin                         EndSegment, Harden
//	┌───────┐  ───────▶  ┌──────────────────┐ ──────┐
//	│ clean │            │       live       │       │
//	│  or   │  ◀───────  │ log since the    │ ◀─────┘
//	│sealed │   Clean    │ last checkpoint  │
//	└───────┘   or Seal  └──────────────────┘ ──────┐ Checkpoint:
//	    ▲                    │          ▲           │ generation + 1,
//	    │                    │          └───────────┘ other half
//	    │                    │ the writer dies, or Fail
//	    │    recover         ▼
//	    └────────────── live, nobody has the lock
//
// The newest superblock holds the state. The next superblock overwrites the copy with the lowest
// generation, so the newest copy stays intact until the next one is durable. After a failed sync,
// the disk may have a half-written copy that the page cache hides. A crash while a new superblock
// is stored over this copy could complete the half-written superblock, since the bytes that it
// lacks may be the same in the new one. So the writer first clears, durably, the checksum of any
// copy that it has not made durable itself. A file at rest, clean or sealed, has its superblock in
// all four copies. A crash while the four copies are stored leaves some copies older and perhaps
// one cut short; the next process that opens the file for writing stores again the copies that were
// cut short. A copy that a killed writer left half stored has no checksum.
//
// # What happened, and what you get
//
//	an operation returned, then kill -9          the operation (C2)
//	a sync returned, then any of these faults    everything up to it (C1)
//	power loss without a sync                    everything up to the last commit (the timer
//	                                             commits too), and possibly some later
//	                                             operations, in order and without a gap
//	kill -9 or power loss during a commit        everything up to the commit before, and all, the first
//	                                             few, or none of the operations of this commit
//	… during a checkpoint or growth of the log   everything up to the last commit
//	… during recovery, any number of times       what the first recovery would have given
//	… during a clean close                       everything up to the last commit
//	… during Seal                                everything, in a clean, live or sealed file
//	a sync fails, or the first log finds no      ErrFailed; after reopening, everything up to
//	room on a full disk                          the last sync that returned no error
//	a larger log finds no room on a full disk    all goes on: the log keeps its size
//	the log is damaged or missing, or is from    ErrCorrupt with the rule (L1 to L5); the file
//	another file or another time                 stays as it is; DiscardLog goes on without the
//	                                             log
//	damage after the last durable record         the log ends there, as after a power loss
//	a superblock of a file at rest is damaged    nothing is lost: there are three more
//	the superblock of a live file is damaged     ErrCorrupt (L2) if an operation has been logged
//	                                             since; otherwise nothing is lost
//	a live file is moved without its log, and    when the other file needs a log, the old NAME.stash
//	another file gets its name                   gets the first digits of its UUID behind its name, and
//	                                             can be moved to its filter; while no file has the name
//	                                             NAME, no new file is created under it
//	NAME is removed or replaced while a writer   ErrFailed, with the cause ErrReplaced, at the next
//	has the file open                            commit
//	the process dies while a new file takes      the old file or the new one, either with
//	the place of an old file                     everything up to the last commit
//	NAME.hashes is missing, damaged, foreign     the filter as before; ErrHashes from calls that need
//	or older                                     the hashes
//	the disk is full for NAME.hashes             Close, and operations once the log is full, fail with
//	                                             the error of the disk; all goes on when there is room
//	superblock, stash or lines are damaged, but  from Salvage, all operations that NAME.hashes and the
//	NAME.hashes and the log are whole            log have, in order
//
// # Memory
//
// Only words.go uses package unsafe: it turns the bytes of a mapping into the words that
// package layout works on.
package recovery
