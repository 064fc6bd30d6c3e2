// Package readers has readers of filter files for programs that are not written in Go: one header
// in C, which is the whole reader, a module in Python that calls it, and a module in JavaScript that
// reads files where they lie. They only read.
//
//	c/mmapfilter.h           the reader, for C11 and C++17
//	c/mmfcheck.c             an example: prints the keys that may be in a filter, as "mmapfilter check" does
//	python/mmapfilter.py     the module
//	c/Makefile               builds libmmapfilter.so, which the module needs, and mmfcheck
//	js/mmapfilter.mjs        the module, for browsers, Node 18 and later, and Deno
//	js/mmapfilter.d.ts       its types, and what each call does
//	js/index.html            a page that asks a filter, and shows the line that it read
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
// Both map the file, so all processes, also those in Go, share one copy of it in memory.
//
// A page or a script takes mmapfilter.mjs, and a URL, a Blob or bytes:
//
//	import { open } from './mmapfilter.mjs'
//	const filter = await open('https://example.org/seen.mmf')
//	if (!(await filter.contains('apple'))) console.log('certainly not')
//
// The keys are the bytes that were inserted. Only mmfcheck uses the note on how the keys
// were made: it refuses a filter whose keys are not lines. The page shows the note.
//
// # What it does
//
// The header follows the essay of package layout. It reads every layout, and files that are sealed
// or clean, or that a writer has open. A lookup takes no lock, watches the epoch and the removal
// counters of its places (R2), and after a few disturbed looks says "maybe". It asks the locks
// whether a live file has a writer. A file whose writer died can be opened. All its answers are
// "maybe" until mmf_status finds it recovered; the header never recovers a file. The same holds
// for a file at rest with a log that is ahead of it, since its newest superblock may be lost (L2).
// Call mmf_status now and then. It also says when another file has taken the place of the open
// one: then open the path again. A shard of a set is a file like any other, and answers for its
// own keys; nothing here reads a manifest. Each rule that is checked at opening has an error with
// its own code.
//
// The module in JavaScript reads sealed files and clean ones that nobody writes to, and refuses
// live ones. From a URL it reads the superblocks and the stash once, 32 KiB, and then a line for
// each lookup: in a compact file, one request of 64 bytes for most absent keys. It compares the
// ETag of each answer with the ETag of the first one. If a server sends no strong ETag, it also
// reads the superblocks again before each "certainly not". A response that is no answer, or that
// comes from another file, is an error with a code. If the epoch of the file says that it is
// superseded, every answer is "maybe". A single line has no checksum. If the part of
// it that a lookup needs breaks F10, the answer is "maybe"; other damage of lines goes unnoticed,
// as in the other readers. Verify a file with "mmapfilter verify" before you publish it.
//
// # What is proven
//
// The tests here build the programs and compare them with the packages in Go: the vectors of
// testdata; XXH3 of all lengths to 2,199 and of longer keys, with several seeds; every answer about
// the keys of filters of every shape; the error for each bit of the fields of a superblock; "maybe"
// for exactly the keys whose counter is odd. They open files with damage of all kinds and look keys
// up in them; for this, the words are in memory whose bounds a sanitizer guards. They replay the
// stores that the library makes in operations and in recoveries, in each layout: between the loads
// of a lookup, in all ways that cut them in three; and in one thread while others look keys up,
// under the sanitizer for threads. (This sanitizer does not see stores of another process to a
// mapping.) Node runs the module: the vectors from all sources, the comparisons with Go, and
// servers that lie, hang, break off or replace the file. Chromium opens the page, which asks a
// filter of a million keys. TestKill (tools/kill) has a reader in C and one in Python beside
// writers that are killed, and files that are recovered, rebuilt and replaced: no key that was
// synced is missed.
//
//	go test ./tools/readers                        # what the time allows
//	go test ./tools/readers -v -sanitize           # gcc and clang, C++, sanitizers
//	go test ./tools/readers -v -keys 10000000 -run Keys
//	go test ./tools/readers -v -damaged 100000 -sanitize -run 'Damage|Fields'
//
// With -v, a line "NOT TESTED" names what is missing: a compiler, sanitizers, python3, numpy, node,
// chromium.
//
// # Caveats
//
//   - A file that is cut short under its mapping, or whose disk fails, ends the process (SIGBUS).
//     Replace files by renaming, as Build does. The header says what a handler of the signal would
//     have to do.
//   - Only on Linux do locks show whether there is a writer. Elsewhere a file that is live when it is
//     opened says "maybe" until it is closed. The header is compiled and tested only on Linux.
//   - A lookup in a filter that another thread has closed is an error of the program, as with any C
//     library.
//   - The module in JavaScript does not look for a log beside a file. Each request is for one line,
//     also in containsAll, which runs some requests at once but does not join neighbours. It computes
//     with BigInt, which takes microseconds a key.
//   - A page of another origin reads a file only if its server allows that, and exposes the headers
//     Content-Range and ETag (Access-Control-Allow-Origin, Access-Control-Expose-Headers).
//   - There are no vector instructions. With -march=native, compact uses the bit instructions of
//     the processor.
package readers
