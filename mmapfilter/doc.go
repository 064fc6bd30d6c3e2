// Package mmapfilter is a cuckoo filter in a memory-mapped file. It answers "is
// this key in the set?" with certainly not or maybe, for billions of keys, at a
// false-positive rate of the caller's choice. Opening a file takes microseconds
// whatever its size, and all processes that open it share one copy in memory.
//
// [Build] makes a file from a sequence of keys. [OpenReadOnly] maps it.
// [Filter.Contains] and its kin ask it. [Verify] checks every byte of it. The
// filter is that of Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter:
// Practically Better Than Bloom" (CoNEXT 2014); the layout of a file, and how a
// key finds its place in it, is the subject of package layout; the order of
// writes, and what survives a crash, that of package recovery.
//
// # The contract
//
//	C1  A key that is in the filter is never answered "certainly not", until the
//	    filter is closed.
//	C3  A key that finds no place is ErrFull, and no other key is lost for it.
//	    (The usual cuckoo filter drops a stored key instead.)
//	C4  The false-positive rate of a filter with as many keys as its capacity
//	    is at most the one that was asked for; Stats estimates the rate now.
//	C5  A file that is cut short, foreign, from a newer version, or whose
//	    superblocks are damaged is a typed error when it is opened; any other
//	    damage of a sealed file is one when it is verified. Until then damage in
//	    its lines can turn answers either way: opening does not read them. No
//	    damage is a panic or a hang. A file that is cut short, or whose disk
//	    fails, while it is mapped, ends a process that looks up what is gone;
//	    OpenOptions.Checked turns that into a "maybe" and an error.
//	C7  Equal keys count: n of them are n items. More copies than their buckets
//	    hold go to one counted entry of the stash. (Options.Distinct has Build
//	    store each key once.)
//
// C2 and C6 are about inserts into and deletes from an existing file, R2 and R3
// about reading one that is written to.
//
// # Reading
//
//	R1  A lookup takes no lock, writes nothing and allocates nothing. It reads
//	    one cache line of the file, so one page where the file is not in
//	    memory, unless that line has overflowed; then a second one, and, if
//	    the key is not there either, one of the stash, whose 12 KiB are soon in
//	    the cache.
//	R4  A file that is not sealed is mapped for random access by everyone.
//	R5  Where the bytes of the file are is the caller's choice: Residency.
//
// # Reading the source
//
// In the order of a life: buildFile (build.go) takes the steps of a build;
// placer.insertBeyond (place.go) finds room for a key whose home is full;
// OpenReadOnly (filter.go) maps the file; Filter.Contains (lookup.go) hashes and
// asks the layout; blocked.Contains (package layout, blocked.go) is the lookup
// itself.
package mmapfilter
