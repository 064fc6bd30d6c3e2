// Package mmapfilter is a cuckoo filter in a memory-mapped file. It answers "is this key in the
// set?" with certainly not or maybe, for billions of keys, at a false-positive rate that the
// caller chooses. Opening a file takes microseconds whatever its size, and all processes that
// open it share one copy in memory.
//
// # Use
//
// To make a filter from keys that you have, call [Build]. The file appears under its name all at
// once or not at all, and replaces an older filter, but no other file:
//
//	keys := func(yield func([]byte, error) bool) { … } // an iter.Seq2; an error that it yields ends Build
//	f, err := mmapfilter.Build(ctx, "users.mmf", &mmapfilter.Options{FalsePositiveRate: 0.001}, keys)
//	defer f.Close() // f is open for lookups
//
// To look keys up, in any number of processes:
//
//	f, err := mmapfilter.OpenReadOnly("users.mmf", nil)
//	defer f.Close()
//	if f.ContainsString("alice") { … } // maybe: ask the database
//
// To insert and delete keys, [Create] an empty filter or [Open] an existing one. One process at
// a time writes to a file; its readers see what it has committed:
//
//	f, err := mmapfilter.Create("seen.mmf", &mmapfilter.Options{Capacity: 10_000_000})
//	err = f.Insert([]byte("alice")) // survives the death of this process
//	err = f.Sync()                  // survives a power loss
//
// To keep serving when a new file replaces the old one under the same name, call [Follow]. To put a
// file from another machine under the name, call [Install]. [Filter.ContainsBatch] and
// [Filter.InsertBatch] take many keys in one call, which is faster. [Verify] checks every byte of a
// file. [Recover] recovers a file whose writer died; opening the file does the same. [Filter.Stats]
// says how full a filter is and which rate to expect. Examples show OpenOrCreate, Build, Follow,
// ContainsBatch, InsertUnique, SyncAt, Rebuild, Verify and Plan.
//
// A filter that should grow later keeps the hashes of its operations, 8 to 9 bytes each, in a file
// beside it. With [Options.AutoGrow] it grows by itself; [Filter.Rebuild], [Filter.ExpireBefore]
// and [Merge] use these hashes, too:
//
//	f, err := mmapfilter.Create("seen.mmf", &mmapfilter.Options{Capacity: 1000, AutoGrow: true})
//
// A filter need not be a file on this machine. [OpenBytes] takes the bytes of a file, as an embed
// directive has them. [OpenReaderAt] takes an io.ReaderAt, perhaps of an object store, and reads one
// line of 64 bytes for a lookup of an absent key; package httpfile has an io.ReaderAt for a URL:
//
//	//go:embed users.mmf
//	var users []byte
//	f, err := mmapfilter.OpenBytes(users, nil)
//
// If one file, or one machine, should not hold all keys, use a sharded set: a manifest and files,
// the shards. Each shard has the keys of a range of hashes. Package sets builds and reads sharded
// sets.
//
// To keep copies of a filter up to date, create each with [Filter.Snapshot]. Then pass what
// [Filter.Changes] writes to [Filter.Apply] of each copy. Package replica does both over HTTP.
//
// Delete only keys that were inserted: see C6.
//
// The filter is the cuckoo filter of Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter:
// Practically Better Than Bloom" (CoNEXT 2014). Package layout describes the file format and has
// a glossary of the terms used here; package recovery describes the order of writes and what
// survives which failure.
//
// # The contract
//
//	C1  A lookup of a key that is in the filter never answers "certainly not", until the key is
//	    deleted, or a Delete of another key, one that is not in the filter, has removed its item
//	    (C6). After such a Delete, the next rebuild gives the key an item again if the filter keeps
//	    its hashes. C1 holds while other items move, and when the filter is full. If a Sync returned
//	    nil after the Insert, C1 also holds after a crash at any instant, and in every process that
//	    looks the key up after the Sync. A filter says "maybe" for every key if it cannot tell: if it
//	    is closed, if its writes have failed, or if its file is being recovered, is served
//	    unrecovered, or has been superseded (K4, R7). So does a follower that has no file yet.
//	C2  A key whose Insert returned nil survives the death of the process (kill -9),
//	    with or without a Sync.
//	C3  An insert into a full filter returns ErrFull. No other key is lost, and Len is right, even
//	    after a crash. (The usual cuckoo filter drops a stored key instead.)
//	C4  While a filter has at most as many keys as its capacity, its false-positive rate is at most
//	    the requested rate, and a lookup of an absent key reads at most 1.1 lines on average, however
//	    often keys are deleted and inserted (1.2 lines if the filter once had more keys). With more
//	    keys, until ErrFull, the rate is at most 1.5 times the requested rate (for capacities of 100
//	    keys and more). With FingerprintBits, no rate is promised. In Packed and SemiSorted, a lookup
//	    of an absent key reads two lines. Stats estimates the current rate.
//	C5  Opening a file that is cut short, foreign, from a newer version, or without an intact
//	    superblock returns a typed error. Recovering a file whose log is damaged, missing or foreign
//	    returns a typed error, too. So does verifying a sealed file with any other damage. Until a
//	    file is verified, damage in its lines can make any answer wrong: opening does not read the
//	    lines, and a file that has been written to has no checksums until Seal. No damage causes a
//	    panic or a hang. If a file is cut short, or its disk fails, while it is mapped, a lookup of
//	    the missing part ends the process (SIGBUS); with OpenOptions.Checked, it answers "maybe", and
//	    the filter has an error. A checkpoint of a file that has been cut short fails.
//	C6  Deleting a key that was never inserted may delete the fingerprint of another key, and lookups
//	    of the other key then answer "certainly not". This is inherent in cuckoo filters. A delete of
//	    a key that is certainly not in the filter is refused. If the filter keeps its hashes, a
//	    delete of a key that is not in the filter may hide one other key, and keys that InsertUnique
//	    left out because the item of this other key answered for them. The next rebuild gives all of
//	    them an item again.
//	C7  Copies of a key are counted: n inserts of a key need n deletes. Copies that do not fit in the
//	    buckets of the key share one counted entry of the stash. Count is the number of items with
//	    the same lines and fingerprint as a key, and so at least the number of its copies. (With
//	    Options.Distinct, Build stores each key once.)
//	C8  A filter that keeps its hashes has the keys that its history means (K7 in package hashes): an
//	    Insert adds a copy of its key, an InsertUnique adds a copy if there is none, and a Delete
//	    removes a copy of exactly its key, if there is one. Such a filter can grow, shrink, get
//	    another rate or layout, delete its old items, and be merged with other filters, all without
//	    its keys. Meanwhile C1 to C7 hold. In a rebuild, operations and syncs wait once, while two
//	    small syncs run.
//	C9  A filter in front of a store never hides a key that the store has (package guard).
//	C10  With Options.ExpireAfter, a key expires once it is older than the option says, by the clock
//	     of the writers: never sooner, and at most 5 % later while the filter is open for writing.
//	     The age of a key is the time since its first insert. Until the key expires, C1 holds for it.
//
// # Writing
//
// An insert plans where its item goes before it changes anything. In order of preference, this is
// its home line; its alternate line, or a line in which a path of moves makes room; an entry of the
// stash. In Compact, a delete that makes room brings an item home, so that lookups continue to read
// one line. Package internal/place has the rules.
//
// The changes go to the log and to a table of pending words in memory. A commit (Sync, a timer, a
// full segment, Close) makes the log durable and then stores the changes to the file, where other
// processes see them. Operations continue while a commit waits for the disk.
//
// # Reading
//
//	R1  A lookup takes no lock, writes nothing and allocates nothing. It reads one line, so one page
//	    if the file is not in memory, and two words of the runtime page, which all lookups share. If
//	    an overflow bit of that line says that the key may be elsewhere, the lookup reads the
//	    alternate line; if the key is not there either, it reads a part of the stash, whose 12 KiB
//	    are soon in the cache. (Packed and SemiSorted have no overflow bits: a lookup goes on until
//	    it finds the key, and a bucket may span two cache lines.) In the process of the writer, a
//	    lookup sees all operations that have returned; in other processes, it sees all committed
//	    operations.
//	R2  "Maybe" needs no proof. A lookup answers "certainly not" only if the removal counters of all
//	    places that it read were even and did not change meanwhile. Otherwise it starts again, a few
//	    times, and then answers "maybe". It never waits.
//	R3  A file can be opened for lookups if it is sealed or clean, or if a writer has it open. If the
//	    writer died, opening the file first recovers it, provided that the process may write to it
//	    and OpenOptions.NoRecover is not set. Otherwise opening returns ErrNeedsRecovery, or with
//	    OpenOptions.ServeUnrecovered a filter that says "maybe" for every key. While a process
//	    recovers a file, or once a sync of the file has failed, readers that have it open answer
//	    "maybe" where they would otherwise answer "certainly not". Of the readers, only a Follower
//	    notices that the writer has died.
//	R4  A file that is not sealed is mapped in small pages, without read-ahead, since after a store
//	    to a large page the system writes all of this page back. So before the first store to a part
//	    of a sealed file, the pages of this part are dropped from the page cache, and are small when
//	    they are read again. Operations go on between the parts, as long as the log has room. (On
//	    tmpfs, which writes nothing back, new files have large pages.) A reader that opened the file
//	    earlier, or reads it between the first operation and the first commit, keeps its large pages
//	    until Warm is called, or a Follower, or a Set that follows, looks at its path. With
//	    ResidencyRandom a reader has no large pages.
//	R5  OpenOptions.Residency says how the bytes of a file come into memory, and whether they stay.
//	    By default, a sealed file that fits in memory is mapped in large pages, where the system has
//	    them for files; any other file is read page by page.
//	R6  A Follower, and a Set that follows, look at their path at intervals. They also look at once
//	    when a lookup cannot tell because its file is superseded (K4), whichever process has built
//	    the new file; this happens once for each file. If the new file does not have the name yet,
//	    they look again after a millisecond, and then less and less often, down to once per interval.
//	    If they refuse the new file, they go on at intervals. With OpenOptions.VerifyBeforeSwitch
//	    they refuse a file that its checksums or its structure show to be damaged. The file in use
//	    answers until they switch.
//	R7  A filter from an io.ReaderAt keeps the head of the file in memory, and reads lines as it
//	    needs them. Only a file at rest can be opened in this way, since nothing tells such a reader
//	    what a writer does meanwhile. If a read fails or ends early, the answers that need it are
//	    "maybe". To find out whether the file is still the same, the filter reads the slot where a
//	    writer would store the next superblock. This slot changes before the first line does, and
//	    another file has another UUID there. If the slot has changed, all answers are "maybe". The
//	    filter reads this slot now and then, and before each "certainly not" if the reader is Weak.
//
// # Growing
//
// Package hashes (layout/hashes) has the format of NAME.hashes, with rules K1 and K7. Package
// recovery has K2, on writing it, and K3 and K4, on how a new file takes the place of an old one.
//
//	K5  With Options.AutoGrow, the filter rebuilds itself for these reasons. (With ExpireAfter alone,
//	    it does so only for the last reason, and to delete expired keys while InsertUnique has left
//	    keys out.)
//
//	      - larger, with twice the capacity, when its items reach 90 % of its capacity, or when an
//	        insert finds no room; such an insert waits for the rebuild. (But if the key has as many
//	        copies as its two lines can hold, and the stash is full, mostly of such keys, a larger
//	        filter would have little more room: the error is a CopiesError.)
//	      - smaller, with room for twice its items, when a delete leaves fewer items than an eighth
//	        of its capacity, and the capacity is above 65,536 keys. But a filter that was created
//	        large for later keys waits for them: it stays large while its items and the operations
//	        since the last rebuild together are fewer than this eighth.
//	      - at the same capacity, when its history has 32,768 more operations since the last rebuild
//	        than the filter has items; or when the waiting deletes (K7) reach an eighth of its
//	        capacity.
//
//	    If the history gets that long again during a rebuild, operations are let through one by one,
//	    a millisecond apart, but none is delayed by more than 50 milliseconds. A rebuild that fails
//	    changes nothing and is tried again. Close ends a rebuild for a larger capacity, but waits for
//	    the end of any other rebuild. (The time of such a rebuild is in proportion to the items, and
//	    it begins only after operations in proportion to the items or the capacity.) So NAME.hashes
//	    has at most 1 MiB more than three times the bytes that the items need, or needed when the
//	    last rebuild began. This holds however briefly programs have the filter open, unless a
//	    rebuild fails, as on a full disk, or waits for a Rebuild from Keys.
//	K6  Whatever uses kept hashes is exact. Rebuild, Merge and Repair produce exactly the items that
//	    the histories of their inputs mean (K7), with the same counts; Merge with Options.Distinct
//	    produces each item once. ExpireBefore deletes no item that may be younger. Verify compares
//	    the items in the file, by class, with the items to which the history has led, and counts the
//	    keys that deletes of absent keys (C6) have hidden.
//
// A rebuild reads the history up to a checkpoint and builds a new file with the items that the
// history means; the writer records later operations. The new file is opened, and these operations
// are replayed in it until few are left. An operation may change the items of the two files in
// different ways, but it means the same in both histories. Both files make a checkpoint. Then
// operations and syncs pause until the rest is replayed, and the new file, with the values of
// DurableSeq and DurableOps, is durable and has the name; [Stats.RebuildStall] says for how long.
// Lookups of this process use the new file as soon as it is durable; lookups in progress end in the
// old file.
//
// # Features together
//
// Features that work alone may fail together. So pairs.md, a file beside the source of this
// package, lists the features that grow, merge, rebuild, repair, seal or read a filter, or delete
// from it; sets; the features of the command; the readers in C and Python; and a filter in front of
// a store. For each pair of features it names the test that uses both, the rule by which they are
// safe together or never meet, or the error that refuses one of them. A test compares the list with
// the code.
//
// # Which calls write
//
// [Create], [Build], [Merge], [Open], [Recover], [Repair], [DiscardLog], and the methods of a
// Filter from Create or Open write to the file, to its log, NAME.stash, and to NAME.hashes. If a
// filter was moved away without its log, and another filter took its name, the next call that would
// replace this log renames it, adding digits of the UUID in the log to its name. [Filter.Rebuild]
// also writes the new file that takes the place of the old one, and so does a filter that grows by
// itself. [Filter.Apply] also writes NAME.apply, and removes it once all changes are done; [Open]
// finishes the changes of a NAME.apply that is left. [Install] renames a file and its NAME.hashes.
// A Set of package sets writes to the shards that its OpenShards has opened. [OpenReadOnly],
// [Follow] and the lookups of a Set write only to recover a file whose writer died, unless
// NoRecover is set. A Follower may do the same when it opens the next file. [Verify], and the
// methods of a Filter from Build, OpenReadOnly, OpenBytes or OpenReaderAt, write nothing to these
// files.
//
// # One insert, from the key to the disk
//
// This section shows what [Filter.Insert] does, function by function, and what a crash leaves at
// each step. After kill -9, the next process finds what was stored; after a power loss, it finds
// what was durable. The superblock says whether the file is at rest (complete without a log) or
// live (the log has what the file may lack). Below, Writer is the type of package internal/writer,
// and recovery.Writer is the type of package recovery.
//
//	1  Hash. Hasher.Hash (package layout) computes a hash of 64 bits; later steps use only this hash,
//	   not the key. Filter.do calls Writer.Insert, which takes the lock mu: one operation at a time.
//	     A crash: nothing has happened.
//	2  Log. If the file is at rest, Writer.ready calls recovery.Writer.Begin, which creates the log
//	   NAME.stash.new, filled with zeros and synced; makes a superblock durable that says "live" and
//	   has the salt of the log; and renames the log to NAME.stash. Then ready waits until the log has
//	   room.
//	     A crash before that superblock: the file is at rest, as before, and the next Open or Begin
//	     removes the unfinished log. A crash after it: the file is live with an empty log, which Open
//	     finds under either name.
//	3  Plan. Writer.plan uses a Placer (internal/place) to find a slot: in the home line, in the other
//	   line, by moves of a few other items, or in the stash. The plan is a list of stores of words.
//	   Done in this order, the stores leave no item missing at any time: an item that moves is first
//	   stored at its destination, with the overflow bits that lead there, and then removed from its
//	   source.
//	     A crash, or no room (ErrFull): nothing has happened, since the list is only in memory.
//	4  Append. Writer.finish passes the list to recovery.Writer.Append, which stores it to the mapped
//	   log without a system call: a record for each run of stores to one block of 64 bytes. The
//	   checksum of a record covers the checksum of the record before, so the log ends before the first
//	   record that is not complete. The last record of the operation says that it is the last, and has
//	   the change of Len.
//	     kill -9: if the last record is complete, the insert has happened (C2), and Len counts it
//	     (C3); otherwise nothing has happened. A power loss: the insert may be missing, and then so
//	     are all later operations.
//	5  Publish. Writer.publish puts the words into a table of pending words. Lookups of this process
//	   read these words instead of those of the file. Insert returns nil. Until step 7, other
//	   processes may answer "certainly not".
//	     A crash: as in 4.
//	6  Commit. A Sync, the timer or a full segment calls Writer.commit. (A segment is the part of the
//	   log since the last commit.) Writer.endSegment appends a commit record, and operations go on in
//	   the next segment. recovery.Writer.Harden syncs the log.
//	     kill -9: as in 4. A power loss before the sync has ended: as in 4. A power loss after it: the
//	     key is not lost (C1); until step 7 has ended, it comes from the log.
//	7  Store. Harden stores in the runtime page of the file how far the log is durable: a bad record
//	   before that point is damage, and not the end of the log. recovery.Writer.apply stores the words
//	   to the mapped file, in order. The runtime page also has an epoch and removal counters, which
//	   lookups check. The counter of a block is odd while an operation takes a fingerprint from the
//	   block, or changes words that mean something only together, until all words of the operation
//	   are stored (W4). Sync returns nil, and every process finds the key.
//	     A crash before the last word is stored: the file has some of the words, and the log has all of
//	     them. A lookup that finds nothing in a block whose counter is odd says "maybe". The next Open
//	     calls recovery.Writer.recover. It makes the epoch odd, so that every lookup that finds nothing
//	     says "maybe"; syncs the log; stores the last value of each word in the log, whatever the file
//	     has; makes counters and epoch even; and puts the file to rest as in 9. After a crash during
//	     the recovery, the next Open begins it again.
//	8  Checkpoint. The log has two halves. When the half in use is nearly full,
//	   recovery.Writer.BeginCheckpoint makes later operations go to the other half, or to a larger log
//	   NAME.stash.new. Their records are chained to the earlier ones. Once every operation of the first
//	   half is stored, recovery.Writer.EndCheckpoint syncs the file, and makes a superblock durable
//	   that names the other half. Only then may a later checkpoint overwrite the first half.
//	     A crash before that superblock: recovery reads the first half, and then the other. A crash
//	     after it: recovery reads only the other. Open finds a larger log under either name.
//	9  Close. Writer.Clean commits. recovery.Writer.Clean syncs the file, makes a superblock durable
//	   that says "clean", copies it to the other three superblock slots, and removes the log.
//	     A crash before the first of the four is durable: as in 7. A crash after it: the file is at
//	     rest, and the next Open removes the log.
//
// A lookup ([Filter.Contains]) loads the epoch and the removal counter of the home line, then the
// line, then epoch and counter again. If the line has the fingerprint, the answer is "maybe". The
// answer is "certainly not" if two conditions hold: the overflow bit of the fingerprint is not set,
// so no item with this fingerprint has left the line; and epoch and counter were even and have not
// changed. Otherwise the lookup begins again, with the counters of both lines and of the stash, and
// looks in both lines and the stash. If several attempts give no answer, it is "maybe".
//
// If a store or a sync of the file or of its log fails, the writer ends with [ErrFailed], and the
// next Open recovers at least what was committed (6). The writer does not end if a larger log finds
// no room, or if hashes cannot be written. If the filter keeps its hashes, the last record of an
// operation (4) also has the hash. Before the superblock of step 8 or 9 is stored, keeper.keep
// appends these hashes to NAME.hashes and syncs this file; the superblock names the last page that
// counts. Package recovery has the rules behind all this (W1 to W9).
//
// # Reading the source
//
// In the order of a key's life: Build (internal/build) runs the steps of a build; Placer.Insert
// (internal/place) finds room for a key; Writer.finish (internal/writer) logs and publishes an
// operation, and Writer.commit commits; OpenReadOnly (open.go) maps the file; Filter.Contains
// (lookup.go) calls a Direct (package layout, direct.go), which hashes and looks up in assembly, or
// openFile.contains, which asks the layout in Go. Package layout has the lookups themselves, and
// the reason why they need no lock (lookup.go); the layouts are in packages below it. The essay of
// tools/house is a map of all packages.
package mmapfilter
