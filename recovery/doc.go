// Package recovery owns files and the order in which they are written: what
// must be durable before what, so that no crash leaves half a filter under a
// name that a reader opens.
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
//	   what it is about to commit to a file that has no name any more. A file
//	   that comes to stand there later is locked before 5. (Windows replaces no
//	   file that is open: there the lock ends just before 5)
//	2. a temporary file in the same directory, all its blocks allocated: a
//	   full disk is an error here, and not a fault in the middle of a store
//	3. its content, through a shared mapping
//	4. msync, then fsync: content and size are durable
//	5. rename over NAME: atomic, for readers and for a crash
//	6. fsync of the directory: the name is durable
//
//	what happened                              what stands under NAME afterwards
//	an error or a cancelled context, 1 to 5    what stood there before; the temporary file is gone
//	kill -9 or power loss before 5             what stood there before; a file NAME.tmp-* may be left
//	kill -9 after 5                            the new file, whole
//	power loss between 5 and 6                 the old file or the new one, either whole
//	power loss after 6                         the new file, whole
//
// This rests on a local file system whose fsync is honest and whose rename is
// atomic.
//
// # Memory
//
// The one file of the module that uses package unsafe, words.go, turns the
// bytes of a mapping into the words that package layout works on. [Guard]
// turns a fault in a mapping, which would end the process, into an error: the
// file under it was cut short, or its disk failed.
package recovery
