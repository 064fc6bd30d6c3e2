// Package house is the plan of the module: its parts, which part may import which, and what must
// never be. Its tests check the code against this page, and run the commands of README and RECIPES.
//
//	go test ./tools/house
//
// A test of tools/release/pack checks, when asked, that the module and its tests compile for other
// systems. It only checks types: it does not look at assembly, or at functions without a body.
//
//	go -C tools/release/pack test . -run TestSystems -systems freebsd/amd64,linux/riscv64
//
// # The parts
//
// The list goes from the bottom up: a part imports only the parts after its arrow, which come
// before it here. The tests of this package read the parts and the arrows from this page. A package
// that is not here is an error, and so is an arrow that nothing needs. Tools may import anything,
// and so may test files. Only Go files are read. Code that needs other modules is a module of its
// own, in a folder of this one; (*) marks the packages of such modules.
//
//	layout/kernel                  which instructions the machine has; prefetches
//	layout/kernel/kerneltest       runs tests with every kernel
//	    → layout/kernel
//	layout                         the format of a file: bytes, rules, lookups
//	    → layout/kernel
//	layout/wal                     the format of the log
//	    → layout layout/kernel
//	layout/hashes                  the format of the hashes that a filter keeps
//	    → layout
//	layout/compact                 the layout of filters
//	    → layout layout/kernel
//	layout/paper                   the two layouts of the paper
//	    → layout layout/kernel
//	layout/all                     registers the layouts; nothing else knows them by name
//	    → layout/compact layout/paper
//	layout/_asm                    (*) writes the assembly
//	layout/multiset                the reference model of a filter
//	    → layout
//	layout/layouttest              what tests of layouts share
//	    → layout
//	recovery/fault                 makes system calls fail in tests
//	recovery                       the order of all writes to the files of a filter
//	    → layout layout/hashes layout/wal
//	recovery/osfile                these files as the system has them: mappings, locks, names
//	    → layout layout/hashes layout/kernel layout/wal recovery recovery/fault
//	recovery/crashsim              a machine that loses power, and an explorer of its crashes
//	    → layout layout/all layout/hashes layout/multiset recovery
//	mmapfilter/internal/tabletest  what tests need of tables
//	    → layout layout/all layout/hashes layout/kernel layout/multiset recovery
//	mmapfilter/internal/place      where an item goes, for inserts and for builds
//	    → layout layout/kernel
//	mmapfilter/internal/changes    the format in which filters tell each other how their keys have changed
//	    → layout
//	mmapfilter/internal/build      makes files from keys and hashes: how large, how; checks whole files
//	    → layout layout/hashes layout/kernel recovery recovery/osfile mmapfilter/internal/changes mmapfilter/internal/place
//	mmapfilter/internal/writer     writes to a filter: operations, commits, checkpoints, and what is due beside them
//	    → layout layout/kernel layout/wal recovery recovery/osfile mmapfilter/internal/build mmapfilter/internal/changes mmapfilter/internal/place
//	mmapfilter/internal/rebuild    puts a new file in the place of one that is written to
//	    → layout recovery recovery/osfile mmapfilter/internal/build mmapfilter/internal/writer
//	mmapfilter/internal/poll       looks for another file at intervals
//	mmapfilter/internal/bridge     what sets, guard and replica need of a filter beyond the API
//	    → layout mmapfilter/internal/build
//	mmapfilter                     the API
//	    → layout layout/all layout/wal recovery recovery/osfile mmapfilter/internal/bridge mmapfilter/internal/build mmapfilter/internal/changes mmapfilter/internal/poll mmapfilter/internal/rebuild mmapfilter/internal/writer
//	mmapfilter/httpfile            a file at a URL, read in parts
//	    → mmapfilter
//	mmapfilter/replica             copies of a filter on other machines, kept up to date
//	    → recovery/osfile mmapfilter mmapfilter/internal/bridge
//	mmapfilter/internal/guarded    what a guard needs of a filter
//	    → mmapfilter mmapfilter/internal/bridge
//	mmapfilter/guard               a filter in front of an embedded store
//	    → mmapfilter mmapfilter/internal/guarded
//	mmapfilter/internal/guardtest  the tests that all guards of engines pass
//	    → mmapfilter mmapfilter/guard
//	mmapfilter/guard/badgerguard   (*) the guard of Badger
//	    → mmapfilter/guard recovery/osfile
//	mmapfilter/guard/bboltguard    (*) the guard of bbolt
//	    → mmapfilter/guard
//	mmapfilter/guard/pebbleguard   (*) the guard of Pebble
//	    → mmapfilter/guard
//	mmapfilter/guard/example/sqlite       (*) a guard by hand, of a database/sql store
//	    → mmapfilter/guard
//	mmapfilter/guard/example/blockstore   (*) blocks of boxo in a guarded Pebble
//	    → mmapfilter/guard mmapfilter/guard/pebbleguard
//	mmapfilter/sets                builds filters of more keys than a file should hold
//	    → layout recovery recovery/osfile mmapfilter mmapfilter/internal/bridge mmapfilter/internal/build mmapfilter/internal/poll
//	mmapfilter/filterprom          (*) collectors for Prometheus
//	    → mmapfilter mmapfilter/guard mmapfilter/replica mmapfilter/sets
//	tools/mmapfilter               the command
//	tools/readers                  readers in C, Python and JavaScript
//	tools/jobs                     runs the tasks of a set on many machines
//	tools/kill                     kills processes and checks the contract
//	tools/house                    this page, and tests of it and of README
//	tools/internal/mistakes        reads testdata/mistakes
//	tools/internal/resp            reads commands and writes replies of RESP
//	tools/internal/resp/peer       (*) tests its reader against another one
//	tools/internal/resp/transcript reads what a server replies, for tests
//	tools/internal/server          serves a directory of filters by RESP
//	tools/clients                  (*) tests the server with clients of Redis
//	tools/bench                    (*) measures, and writes RESULTS.md and PAPER.md
//	tools/beam                     (*) builds a set on Apache Beam
//	tools/release                  runs pack, from a clone
//	tools/release/pack             (*) makes a release: modules, archives, a Debian package, tags
//
// # The ways through them
//
//	Build      mmapfilter, build, place: buckets fill in memory; recovery: the file gets its name
//	Insert     mmapfilter, writer, place: which words change; recovery, wal: the log; writer: pending words
//	commit     writer: it is due; recovery: the log is durable, then the words go to the file
//	Contains   mmapfilter, layout; where the filter is open for writing, writer before layout
//	Rebuild    mmapfilter, rebuild: build makes the new file; writer repeats in it the later operations
//	recovery   mmapfilter, writer, recovery: wal reads the log, and its words go to the file
//
// Calls go to parts that come earlier in the list of parts. These calls go the other way,
// through a function or an interface of the earlier part:
//
//	layout → mmapfilter      NewDirect's contains: a lookup that the assembly leaves undecided
//	layout → writer          Lookup's at: words that may be pending
//	place → writer, build    Lines: the lines that an insert reads and changes
//	writer → rebuild         the functions of Replace: what is left to do, and which file is in use
//	build → mmapfilter       the functions of Config: the size of the filter, its name
//	rebuild → mmapfilter     the functions of a rebuild: its keys, and the file that Filter uses
//	guard → the guard of a store   Store: its transactions and its log
//
// The essay of writer has the locks of a writer and their order, and the essay of recovery the locks
// of files.
//
// # The rules
//
// Rules have a letter and a number. These essays state them:
//
//	C   mmapfilter               the contract
//	F   layout                   the format of a file
//	G   mmapfilter/guard         what a guard promises, and what it asks of a store
//	K   layout/hashes, recovery, mmapfilter   kept hashes, and a file that takes the place of another
//	L   layout/wal               the log
//	O   recovery/crashsim        what is checked after a crash
//	P   mmapfilter/internal/place   where an item goes
//	R   mmapfilter               reading: what a lookup and a mapping do
//	S   mmapfilter/sets          sets and shards
//	W   recovery                 the order of writes
//
// An error names the rule that a file breaks, and a test names the rules that it covers.
//
// # What must never be
//
// A program checks what it can: the tests of this package (house), or step lint of .ci/run.
//
//   - An import of a part that comes later in the list, and an import of tools by anything
//     else. (house)
//   - An import of layout/compact or layout/paper anywhere but in layout/all. (lint)
//   - A file, a clock or randomness in layout and below, which import only packages of a short
//     list. (lint)
//   - Package unsafe outside recovery/words.go. (lint)
//   - A store to the stash or to the lines of a live file outside recovery's Writer.put (W9), or
//     before its record is durable (W1, W3, W6). DiscardLog is the exception: its log is lost, so it
//     has no records. Package crashsim and the mistakes in testdata show that tests would find such
//     a store.
//   - The order of writes anywhere but in recovery.
//   - A file of more than 600 lines, a function of more than 70 outside of tests, a comment that is
//     too wide, a package without an essay. (house)
//   - A rule that no test names, or that has the same number as another rule; a test that the
//     gate names and that does not exist. (house)
//   - A measured figure in a comment: measured figures stand in tools/bench/RESULTS.md. (lint,
//     which looks for units of time, models of processors and some phrases)
//   - A function that README names and that is not where it says; a link between pages that leads
//     nowhere. (house)
package house
