// Package mmapfilter is a cuckoo filter in a memory-mapped file. It answers "is this key in the
// set?" with certainly not or maybe, for billions of keys, at a false-positive rate that the
// caller chooses. Opening a file takes microseconds whatever its size, and all processes that
// open it share one copy in memory.
//
// # Use
//
// To make a filter from keys that you have, call [Build]. The file appears under its name all at
// once or not at all, and replaces any older one:
//
//	f, err := mmapfilter.Build(ctx, "users.mmf", keys, &mmapfilter.Options{FalsePositiveRate: 0.001})
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
//	err = f.InsertString("alice") // survives the death of this process
//	err = f.Sync()                // survives a power loss
//
// To keep serving when a new file replaces the old one under the same name, call [Follow].
// [Filter.ContainsBatch] and [Filter.InsertBatch] take many keys in one call, which is faster.
// [Verify] checks every byte of a file. [Recover] repairs the file of a writer that died, as
// opening it does. [Filter.Stats] says how full a filter is and which rate to expect. The
// examples show each of these.
//
// A filter that is to grow keeps the hashes of its items, 8 to 9 bytes on disk for each operation,
// in a file beside it. With [Options.AutoGrow] it grows by itself; [Filter.Rebuild],
// [Filter.ExpireBefore] and [Merge] do more with them:
//
//	f, err := mmapfilter.Create("seen.mmf", &mmapfilter.Options{Capacity: 1000, AutoGrow: true})
//
// More keys than a file, or a machine, should hold make a set: a manifest, and files that each have the
// keys of a range of hashes. Package sets builds one; [OpenSet] and [FollowSet] read it:
//
//	s, err := mmapfilter.OpenSet("users.set", nil)
//	if s.ContainsString("alice") { … }
//
// Delete only keys that were inserted: see C6.
//
// The filter is that of Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter: Practically
// Better Than Bloom" (CoNEXT 2014). Package layout describes the file format and has a glossary
// of the terms used here; package recovery describes the order of writes and what survives which
// failure.
//
// # The contract
//
//	C1  A key that is in the filter is never answered "certainly not" until it is
//	    deleted: not while other items move, not when the filter is full. If a Sync
//	    returned nil after the Insert, this also holds after a crash at any instant,
//	    and in every process that looks the key up after the Sync. A filter that cannot
//	    tell says "maybe" for every key: one that is closed, whose writes have failed,
//	    that waits for its file, or whose file is being recovered or is served
//	    unrecovered.
//	C2  A key whose Insert returned nil survives the death of the process (kill -9),
//	    with or without a Sync.
//	C3  An insert into a full filter returns ErrFull. No other key is lost, and Len
//	    is right, also after a crash. (The usual cuckoo filter drops a stored key
//	    instead.)
//	C4  The false-positive rate of a filter that holds at most as many keys as its
//	    capacity is at most the rate that Options asked for, and a lookup of an absent
//	    key reads 1.1 lines on average, however often keys are deleted and others
//	    inserted. The rate of a full filter is at most 1.5 times that (for capacities of
//	    100 keys and more). Options with FingerprintBits ask for no rate. In layout
//	    Blocked, all of this holds only while little is deleted: deletes leave overflow
//	    bits behind. (Packed and SemiSorted always read two lines.) Stats estimates the
//	    current rate.
//	C5  Opening a file that is cut short, foreign, from a newer version, or without an
//	    intact superblock returns a typed error. So does recovering a file whose log is
//	    damaged, missing or foreign, and verifying a sealed file with any other damage.
//	    Until a file is verified, damage in its lines can turn answers either way:
//	    opening does not read the lines, and a file that has been written to has no
//	    checksums until Seal. No damage causes a panic or a hang. If a file is cut
//	    short, or its disk fails, while it is mapped, a lookup of the missing part ends
//	    the process (SIGBUS); OpenOptions.Checked turns that into "maybe" and an error.
//	C6  Deleting a key that was never inserted may delete the fingerprint of another
//	    key, which is then answered "certainly not". This is inherent in cuckoo filters.
//	    A delete of a key that is certainly not in the filter is refused.
//	C7  Equal keys count: n inserts of a key need n deletes. Copies that do not fit in
//	    its buckets share one counted entry of the stash. Count is the number of items
//	    that share lines, buckets and fingerprint with a key: at least the number of
//	    its copies. (Options.Distinct makes Build store each key once.)
//	C8  A filter that keeps its hashes never ends: it grows, shrinks, changes its rate or
//	    layout, forgets what is old, and is merged with others, without its keys. While it
//	    does, C1 to C7 hold, and operations wait for one short step.
//
// # Writing
//
// An insert plans where its item goes before it changes anything. In order of preference: a
// bucket of the home line, the emptier one first; a move within the home line that makes room;
// the alternate line, in the same way; a path of moves from line to line, found breadth first;
// an entry of the stash. The changes go to the log and to a table of pending words in memory. A
// commit (Sync, a timer, a full segment, Close) makes the log durable and then stores the
// changes to the file, where other processes see them. Operations continue while a commit waits
// for the disk.
//
// # Reading
//
//	R1  A lookup takes no lock, writes nothing and allocates nothing. It reads one line,
//	    so one page if the file is not in memory, and two words of the runtime page,
//	    which all lookups share. If that line has overflowed, it reads the alternate
//	    line; if the key is not there either, it reads a part of the stash, whose 12 KiB
//	    are soon in the cache. (The layouts Packed and SemiSorted have no overflow bits:
//	    a lookup goes on until it finds the key, and a bucket may span two cache lines.)
//	    In the process of the writer, a lookup sees all operations that have returned; in
//	    others, all committed ones.
//	R2  "Maybe" needs no proof. A lookup answers "certainly not" only if the removal
//	    counters of all places that it read stood still meanwhile. Otherwise it starts
//	    again, a few times, and then answers "maybe": it waits for nobody.
//	R3  A sealed or clean file is served, and so is one that a writer has open. If the
//	    writer died, opening recovers the file first if it may write to it and
//	    OpenOptions.NoRecover is not set; otherwise it returns ErrNeedsRecovery, or with
//	    OpenOptions.ServeUnrecovered a filter that says "maybe" for every key. While a
//	    process recovers a file, readers that have it open answer "maybe" where they
//	    would answer "certainly not". Of the readers, only a Follower notices that
//	    the writer has died.
//	R4  Writers and readers map a file that is not sealed with advice for random access.
//	    Read-ahead would fill the page cache with large pages, and a store to a large
//	    page writes all of it back. Before the first store to a file that was sealed,
//	    its pages are dropped from the page cache; they come back small. (On tmpfs,
//	    which writes nothing back, new files have large pages.) A reader that has had the
//	    file open since before reads it in large pages still, until Warm is called or a
//	    Follower, or a Set that follows, looks at its path; ResidencyRandom avoids that.
//	R5  OpenOptions.Residency says how the bytes of a file come into memory, and whether
//	    they stay. By default, a sealed file that fits in memory is mapped in large pages,
//	    where the system has them for files; any other is read page by page.
//
// # Growing
//
// Package hashes (layout/hashes) has the format of NAME.hashes and rule K1; package recovery has K2,
// how it is kept, and K3 and K4, how a new file takes the place of an old one.
//
//	K5  With Options.AutoGrow, a rebuild to twice the capacity begins when the filter has
//	    90 % of its capacity. An insert that finds no room waits for it. A filter that has
//	    less than an eighth of its capacity, and is sized for more than 65,536 keys, is
//	    rebuilt for twice what it has; and one whose NAME.hashes has become several times
//	    as long as its items need, for the same. Close ends a rebuild that is under way; the
//	    next operation that needs it begins another one.
//	K6  What is done from kept hashes is exact. Rebuild and Merge have the items of their
//	    inputs, each as often as there; with Options.Distinct, each once. ExpireBefore
//	    deletes no item that may be younger. Verify finds every item that is not that of a
//	    hash, and every hash that is not found; Repair makes a file of them.
//
// A rebuild builds a new file from the hashes as of a checkpoint, while the writer takes down what
// it does from then on. The new file is opened as any file is, and these operations are done in it,
// until few are left. Then the old writer is held, the rest is done, the counters of DurableSeq and
// DurableOps are taken over, the new log is made durable, and the files change their names. Lookups
// of this process go to the new file from then on, those under way end in the old one.
//
// # Which calls write
//
// [Create], [Build], [Merge], [Open], [Recover], [Repair], [DiscardLog], and the methods of a Filter
// from Create or Open write to the file, to its log, NAME.stash, and to NAME.hashes. [OpenReadOnly] and [Follow] write in one
// case: to recover a file whose writer died, unless NoRecover is set. A Follower may do the same
// when it opens the next file. [Verify], and the methods of a Filter from Build or OpenReadOnly,
// write nothing.
//
// # Reading the source
//
// In the order of a key's life: Build (internal/builder) runs the steps of a build;
// Placer.Insert (internal/place) finds room for a key; Writer.finish (internal/engine) logs and
// publishes an operation, and Writer.syncLocked commits; OpenReadOnly (filter.go) maps the file;
// Filter.Contains (lookup.go) calls a Direct (package layout, direct.go), which hashes and looks
// up in assembly, or openFile.contains, which asks the layout in Go. The lookups themselves, and
// why they need no lock, are in package layout (lookup.go); each layout has a package below it.
package mmapfilter
