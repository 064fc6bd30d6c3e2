// Package readers has readers of filter files for processes that are not written in Go: one header
// in C, which is the whole reader, and a module in Python that calls it. They only read.
//
//	c/mmapfilter.h           the reader, for C11 and C++17
//	c/mmfcheck.c             an example: prints the keys that may be in a filter, as "mmapfilter check" does
//	python/mmapfilter.py     the module
//	c/Makefile               builds libmmapfilter.so, which the module needs, and mmfcheck
//
// # Use
//
// A program in C includes the header, and in one of its files defines MMF_IMPLEMENTATION first:
//
//	mmf_filter *f;
//	if (mmf_open("seen.mmf", &f) == MMF_OK && !mmf_contains(f, "apple", 5))
//		puts("certainly not");
//
// A program in Python takes mmapfilter.py and the shared object, which one call builds:
//
//	cc -O2 -fPIC -shared -DMMF_IMPLEMENTATION -x c mmapfilter.h -o libmmapfilter.so
//
//	with mmapfilter.open("seen.mmf") as f:
//	    if b"apple" not in f: print("certainly not")
//
// Both map the file, so all processes, also those in Go, share one copy of it in memory. The keys
// are the bytes that were inserted. Only mmfcheck reads the note on how the keys were made: it
// refuses a filter whose keys are not lines.
//
// # What it does
//
// The header follows the essay of package layout. It reads every layout, and files that are sealed
// or clean, or that a writer has open: a lookup takes no lock, watches the epoch and the removal
// counters of its places (R2), and after a few disturbed looks says "maybe". It asks the locks
// whether a live file has a writer. A file whose writer died can be opened. All its answers are
// "maybe" until mmf_status finds it recovered; the header never recovers a file. The same holds
// for a file at rest with a log that is ahead of it, since its newest superblock may be lost (L2).
// Call mmf_status now and then. It also says when another file has taken the place of the open
// one: then open the path again. A shard of a set is a file like any other, and answers for its
// own keys; nothing here reads a manifest. Each rule that is checked at opening has an error with
// its own code.
//
// # What is proven
//
// The tests here build the programs and compare them with the packages in Go: the vectors of
// testdata; XXH3 of all lengths to 2,199 and of longer keys, with several seeds; every answer about
// the keys of filters of every shape; the error for each bit of the fields of a superblock; "maybe"
// for exactly the keys whose counter is odd. They open files with damage of all kinds and look keys
// up in them; for this, the words are in memory whose bounds a sanitizer guards. The stores of every
// move of an item in compact, by a writer and by a recovery, are made between the loads of a lookup,
// in all ways that cut them in three; and a thread moves items while others look them up, under the
// sanitizer for threads. (This sanitizer does not see stores of another process to a mapping.)
// TestKill (tools/kill) has a reader in C and one in Python beside writers that are killed, and
// files that are recovered, rebuilt and replaced: no key that was synced is missed.
//
//	go test ./tools/readers                        # what the time allows
//	go test ./tools/readers -v -sanitize           # gcc and clang, C++, sanitizers
//	go test ./tools/readers -v -keys 10000000 -run Keys
//	go test ./tools/readers -v -damaged 100000 -sanitize -run 'Damage|Fields'
//	go test ./tools/readers -v -speed -run Speed -timeout 30m
//
// The last one measures lookups in turns with lookups in Go without kernels. The lookups in C
// may take a tenth longer. With -v, a line "NOT TESTED" names what is missing: a compiler,
// sanitizers, python3, numpy.
//
// # Caveats
//
//   - A file that is cut short under its mapping, or whose disk fails, ends the process (SIGBUS).
//     Replace files by renaming, as Build does. The header says what a handler of the signal would
//     have to do.
//   - Locks tell of writers on Linux only. Elsewhere a file that is live when it is opened says
//     "maybe" until it is closed. It is compiled and tested on Linux alone.
//   - A lookup in a filter that another thread has closed is an error of the program, as with any C
//     library.
//   - There are no vector instructions. With -march=native, compact takes the bit instructions of
//     the processor.
package readers
