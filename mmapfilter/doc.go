// Package mmapfilter is a cuckoo filter in a memory-mapped file. It answers "is
// this key in the set?" with certainly not or maybe, for billions of keys, at a
// false-positive rate of the caller's choice. Opening a file takes microseconds
// whatever its size, and all processes that open it share one copy in memory.
//
// [Build] makes a file from a sequence of keys. [Create] makes an empty one, and
// [Open] opens one for writing: [Filter.Insert], [Filter.Delete] and their kin
// change it, [Filter.Sync] makes that durable. [OpenReadOnly] maps it for reading,
// beside the writer or without one; [Follow] goes on with the file that takes its
// place. [Filter.Contains] and its kin ask it. [Verify]
// checks every byte of it. The filter is that of Fan, Andersen, Kaminsky and
// Mitzenmacher, "Cuckoo Filter: Practically Better Than Bloom" (CoNEXT 2014); the
// layout of a file, and how a key finds its place in it, is the subject of package
// layout; the order of writes, and what survives what, that of package recovery.
//
// # The contract
//
//	C1  A key that is in the filter is never answered "certainly not" until it is
//	    deleted: not while others are moved, not when the filter is full. If a Sync
//	    returned nil after its Insert, that holds after a crash at any instant too,
//	    and in every process that asks after the Sync. A filter that has nothing to
//	    ask says "maybe": one that is closed, whose writes have failed, that waits for
//	    its file, or whose file is being recovered or served unrecovered.
//	C2  A key whose Insert returned nil survives the death of the process (kill -9),
//	    Sync or not.
//	C3  An insert that is refused is ErrFull, nothing else is lost for it, and
//	    Len is right, also after a crash. (The usual cuckoo filter drops a stored
//	    key instead.)
//	C4  The false-positive rate of a filter with as many keys as its capacity
//	    is at most the one that was asked for, and that of a full one at most 1.5
//	    times as high, from a capacity of 100 keys on (see keyLimit). Stats estimates
//	    the rate now. (FingerprintBits asks for no rate. Deletes leave overflow bits
//	    behind: under much churn the rate rises.)
//	C5  A file that is cut short, foreign, from a newer version, or whose
//	    superblocks are damaged is a typed error when it is opened; a log that is
//	    damaged, missing or foreign is one when it is recovered; any other damage
//	    of a sealed file is one when it is verified. Until then damage in
//	    its lines can turn answers either way: opening does not read them, and
//	    those of a file that has been written to have no checksums until Seal. No
//	    damage is a panic or a hang. A file that is cut short, or whose disk
//	    fails, while it is mapped, ends a process that looks up what is gone;
//	    OpenOptions.Checked turns that into a "maybe" and an error.
//	C6  Deleting a key that was never inserted may take away the fingerprint of
//	    another one. That is inherent; a key that is certainly not in the filter
//	    is refused.
//	C7  Equal keys count: n of them are n items, and need n deletes. More copies than
//	    their buckets hold go to one counted entry of the stash. Count is exact for
//	    the keys that have the same places and the same fingerprint, and so an
//	    upper bound for one of them. (Options.Distinct has Build store each key
//	    once.)
//
// # Writing
//
// An operation plans where its item goes before it changes anything: a bucket of
// its home line, the emptier first; a move inside that line; the other line,
// likewise; a path of moves, found breadth first; an entry of the stash. What it
// changes goes to the log, and to a table of pending words in memory. A commit
// (Sync, a timer, a full batch, Close) makes the log durable and then stores the
// changes to the file, where other processes see them. Operations go on while the
// disk is waited for.
//
// # Reading
//
//	R1  A lookup takes no lock, writes nothing and allocates nothing. It reads
//	    one cache line of the file, so one page where the file is not in
//	    memory, unless that line has overflowed; then a second one, and, if
//	    the key is not there either, one of the stash, whose 12 KiB are soon in
//	    the cache. (In the layouts Packed and SemiSorted nothing overflows, and
//	    it always goes on until it finds the key; a bucket of theirs may be in two
//	    cache lines.) In the process that writes it sees what has been done; in others,
//	    what has been committed.
//	R2  "Maybe" needs no proof. "Certainly not" is answered only if the removal
//	    counters of all places that were read stood still meanwhile; otherwise the
//	    lookup begins again, a few times, and then says "maybe": it waits for nobody.
//	R3  A sealed or clean file is served, and so is one that a writer has open. One
//	    whose writer died is recovered first if the process may write to it and
//	    OpenOptions.NoRecover does not forbid it, and ErrNeedsRecovery otherwise;
//	    OpenOptions.ServeUnrecovered turns that into "maybe" for every key. While
//	    someone recovers a file, "certainly not" becomes "maybe" for those who have
//	    it open. Of readers, a Follower tells when the writer of its file has died.
//	R4  A file that is not sealed is mapped for random access by everyone: what reads
//	    ahead fills the page cache with large pages, and each that is stored to is
//	    written back whole. One that was sealed is taken out of the page cache, and
//	    comes back in small pages, before the first store. (On tmpfs, which writes
//	    nothing back, every new file is in large ones.)
//	R5  Where the bytes of the file are is the caller's choice: Residency.
//
// # Which calls write
//
// Create, Build, Open, Recover, DiscardLog and the methods of a Filter that Open or
// Create gave write to the file and to its log, NAME.stash. OpenReadOnly and Follow
// write in one case: to recover a file whose writer died, unless NoRecover is set.
// Verify, and every method of a Filter opened for reading or of a Follower, write nothing.
//
// # Reading the source
//
// In the order of a life: buildFile (build.go) takes the steps of a build;
// placer.insert (place.go) finds room for a key; writer.finish (writer.go) logs
// and publishes an operation, and writer.syncLocked commits a batch of them;
// OpenReadOnly (filter.go) maps the file; Filter.Contains (lookup.go) leaves it to a
// Direct (package layout, direct.go), which hashes and looks in assembly, or to Go, where
// openFile.contains asks the layout; blocked.Contains (package layout, blocked.go) is the lookup
// itself, compact.Contains (compact_lookup.go) that of Compact, and pair.Contains
// (pair.go) that of Packed and SemiSorted.
package mmapfilter
