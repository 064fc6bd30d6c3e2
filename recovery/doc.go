// Package recovery owns files and the order in which they are written: what
// must be durable before what, so that no crash costs a key that was synced, and
// none leaves half a filter under a name that a reader opens.
//
// # The fault model
//
// What can happen at any instant, also during the recovery from what happened
// before, and what the protocol below survives:
//
//   - The process dies (kill -9, a panic, an out-of-memory kill). What it stored
//     to mapped files is in the page cache and stays; its heap is gone.
//   - The power goes. Of what was stored to a file since its last sync, every
//     sector has, each on its own, what the disk had before or any state that it
//     went through since: the kernel writes pages whenever it likes. A page is not
//     written at once: it can be cut at any multiple of 8 bytes. Of the log and of
//     the superblocks, a sector that was being written can be garbage.
//   - A sync fails (fsync, fdatasync, msync). Some of the sectors are durable,
//     others are not, and the system counts all of them as written; what the cache
//     shows is not what the disk has, and a second sync does not help.
//   - Names come, change and go in the order of the calls, and are durable when
//     their directory has been synced; after a power loss, the last ones that were
//     not may be undone.
//
// It rests on this:
//
//   - A sync that returns no error has made everything durable.
//   - Writing a sector damages no other bytes than the ones written ("powersafe
//     overwrite"), and of the stash and the lines not even those: an aligned word
//     of 8 bytes has its old value or its new one, in memory and on the disk. A
//     sector that is written with what it holds already is not damaged.
//   - The file system is a local one, and keeps to the above for shared mappings.
//     On a copy-on-write file system, storing to an allocated file takes new
//     blocks; there, a full disk can end the process (SIGBUS). See [Warning].
//   - Nobody but this package writes to the files. The lock keeps other writers
//     out, not other programs.
//
// Package crashsim makes all of this happen, at every store and at every sync.
//
// # Writing
//
//	W1  The mapping holds durable state only. An operation is a list of words of the
//	    filter file and their new values; it is appended to the log, and nothing
//	    else is stored to. What it stores to one block of 64 bytes without a pause is one
//	    record. (Writer.Append)
//	W2  The log is a file of fixed size, allocated, written with zero bytes and
//	    synced before its first use, and mapped. Records are chained, by a check
//	    over each of them, the one before, its LSN and the salt of the generation.
//	    There is room for all records of an operation before the first is stored;
//	    the last one is marked, and recovery replays whole operations only. An
//	    append is a few stores to memory, and survives the death of the process.
//	W3  A commit stores a commit record, makes the log durable, leaves a promise
//	    that it is, and only then stores the records to the mapping, in their order.
//	    Only after that is the caller told. The next record goes to a fresh page: a
//	    sector with durable records is not stored to again in its generation.
//	    (Writer.EndSegment, Writer.Harden)
//	W4  A store that takes away what a lookup may be looking for, or that changes a
//	    bucket whose slots cannot be read apart and are in more than one word, happens
//	    between two steps of its removal counter; every other only adds. A counter
//	    that an operation has made odd stays so until all its words are stored, and
//	    is even between operations. An item that moves to another block is at its
//	    destination before it leaves its source; inside a block of 64 bytes, whose
//	    words have one counter, they are stored in their order. So readers without
//	    a lock miss none (package layout, "Reading beside a writer"). (Writer.apply)
//	W5  A checkpoint makes the mapping durable, then the header of the next
//	    generation in the log, then the next superblock, which has a new salt; then
//	    the log begins again, over the old records. Nothing is cut short. A larger
//	    log is a new file, durable before the superblock that has its salt; it gets
//	    its name after that. (Writer.Checkpoint, Writer.switchLog)
//	W6  Recovery, under the lock: read the log to its end, and refuse one that ends
//	    before an LSN that anyone vouches for; store the superblock again, where
//	    it is, and sync it; make the epoch odd; store the log again, and
//	    sync it; store the last value of every word in it, whatever the mapping
//	    shows; move odd removal counters up to even; make the epoch even; and end as
//	    a clean close does. (Writer.recover)
//	W7  Opening creates nothing. It removes the log that a close did not come to
//	    remove. The first operation makes the superblock it found durable, creates
//	    the log, durable, and then a superblock that says live, durable. A clean
//	    close makes the mapping durable, then a superblock that says clean, and then
//	    removes the log.
//	    (Writer.Begin, Writer.Clean)
//	W8  Any error of a call that writes ends the writer: from then on everything is
//	    ErrFailed, and the next open recovers. Nothing is tried again. There is one
//	    exception: where there is no room for a larger log, nothing rests on it yet. It
//	    is removed, and the log keeps its size until a later checkpoint finds room for a
//	    larger one. (Writer.Fail, Writer.switchLog)
//	W9  One function stores to the stash and the lines (Writer.put), and one file of
//	    the module uses package unsafe (words.go). Lookups and planning load from a
//	    second mapping of the file, through which nothing can be stored. A commit, or
//	    whatever touches the logs, that finds that its file is not the one under its
//	    name ends the writer.
//
// Why that is enough: by W1 and W3 a word of the mapping changes only when the
// record that says so is durable. So whatever version of whatever page the disk
// has, each word has the value that some record gave it that is durable, or the
// one of the checkpoint; and replaying the durable log from the checkpoint gives
// each word its last value there. What recovery makes is, bit for bit, what the
// operations up to the end of the log make. That is what the explorer holds it
// against.
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
//	    │                    │          └───────────┘ new salt
//	    │                    │ the writer dies, or Fail
//	    │    recover         ▼
//	    └────────────── live, nobody has the lock
//
// The state is in the newest superblock. Of the four slots, the one of the lowest
// generation gets the next superblock, when the last one is known to be durable; so that is
// whole until the next one is. A slot that the writer has not made durable itself
// loses its checksum, durably, before a superblock is stored over it: a crash may
// have left one half written there, under whatever the cache shows after a failed
// sync, and the new one might complete it. A file at rest, clean or sealed, has its
// superblock in all four; a crash before the last one leaves slots that are older, or cut
// short, and whoever opens it for writing stores the latter again. One that a killed writer
// has cut short has no checksum.
//
// # What happened, and what you get
//
//	an operation returned, then kill -9          the operation (C2)
//	a sync returned, then anything               everything up to it (C1)
//	power loss without a sync                    everything up to the last commit, by the
//	                                             timer for one, and maybe some operations
//	                                             more, in their order and without a gap
//	kill -9 or power loss in a commit            likewise; the commit as a whole, a part of
//	                                             it in order, or nothing of it
//	… in a checkpoint, or while the log grows    everything up to the last commit
//	… in recovery, any number of times           what the first recovery would have given
//	… in a clean close                           everything that was committed
//	… in Seal                                    everything; a clean or live file, or the
//	                                             sealed one
//	a sync fails, or the first log finds no      ErrFailed; after opening it again, everything
//	room on a full disk                          up to the last sync that returned no error
//	a larger log finds no room on a full disk    nothing happens: the log keeps its size
//	the log is damaged, missing, or of another   ErrCorrupt, with the rule (L1 to L5); the file
//	file or another time                         is left as it is, until DiscardLog is asked to
//	                                             do without the log
//	damage past what was durable                 a torn tail, as after a power loss
//	a superblock of a file at rest is damaged    nothing is lost: there are three more
//	the superblock of a live file is damaged     ErrCorrupt (L2), once an operation has been
//	                                             logged since; before that, nothing is lost
//	NAME is removed or replaced under a writer   ErrReplaced at the next commit
//
// # A new file
//
// A filter file comes into being whole or not at all ([Draft]):
//
//	                     NewDraft                     Publish
//	no file, or an old ────────────▶ old file locked, ────────▶ new file under
//	one, under NAME                  temporary file             NAME, durable
//	      ▲                          of full size                    │
//	      └──────────── Discard ─────────────┘                lock released
//
//	1. the writer lock of an old file of that name, so that no writer loses
//	   what it is about to commit to a file that has no name any more; if its
//	   writer died, it is recovered, for the readers that it has meanwhile. A file
//	   that comes to stand there later is locked before 5. (Windows replaces no
//	   file that is open: there the lock ends just before 5)
//	2. a temporary file in the same directory, all its blocks allocated: a
//	   full disk is an error here, and not a fault in the middle of a store. It is
//	   locked as long as its process lives; one that is not is removed. It gets the
//	   owner, group and permissions of the old file, as far as that is allowed
//	3. its content, through a shared mapping
//	4. msync, then fsync: content and size are durable
//	5. rename over NAME: atomic, for readers and for a crash
//	6. fsync of the directory: the name is durable
//
//	what happened                              what stands under NAME afterwards
//	an error or a cancelled context, 1 to 5    what stood there before; the temporary file is gone
//	kill -9 or power loss before 5             what stood there before; a file NAME.tmp-* may be
//	                                           left, which the next draft removes
//	kill -9 after 5                            the new file, whole
//	power loss between 5 and 6                 the old file or the new one, either whole
//	power loss after 6                         the new file, whole
//
// # Platforms
//
//	            files are    lock             allocation   sync of the log   sync of a name   tested
//	Linux       written      OFD lock of      fallocate,   fdatasync         fsync of the     yes
//	                         two parts        checked                        directory
//	macOS       written      flock            zero bytes   F_FULLFSYNC       likewise         compiled
//	FreeBSD,    written      flock            zero bytes   msync, fsync      likewise         compiled
//	NetBSD
//	Windows,    read, and    LockFileEx,                                                     compiled
//	OpenBSD     built        flock
//
// Files that are clean or sealed are read, and built, wherever the module
// compiles: on 64-bit little-endian machines. Where files are not written, opening
// one for writing is errors.ErrUnsupported: Windows renames no file that is mapped,
// and OpenBSD does not keep a mapping and what read returns the same. What is
// promised above of power loss is promised on Linux; elsewhere it is what the
// calls in the table give. There, holes that a copied file has stay, so that a
// store to one, on a full disk, ends the process; and a lock has one part: a
// reader may be served in the moment before another process, which has the lock
// already, begins to recover the file.
//
// # Memory
//
// The one file of the module that uses package unsafe, words.go, turns the
// bytes of a mapping into the words that package layout works on. [Guard]
// turns a fault in a mapping, which would end the process, into an error: the
// file under it was cut short, or its disk failed.
package recovery
