// Package server serves the filters of a directory by RESP: the commands CF.* and BF.* with the replies
// of RedisBloom, and those that clients send around them.
//
// # A key is a file
//
// The file of a key is its name, escaped, and ".mmf". It is an ordinary filter: other processes look
// keys up in it while the server writes, and a filter that another program has made is served when the
// server starts with it in the directory. There is no manifest: the files are the truth. What Redis
// knows of a key and a filter does not (its kind and the words of RESERVE) is the filter's note
// on normalisation, which is made with the file and lasts through rebuilds. A deadline (EXPIRE) is a
// file beside it, NAME.mmf.expire. It is made before the file that it is for, where that is new to the
// name, and removed after it; so a crash leaves at most one without a filter, which the next start
// removes, and no filter meets the deadline of another.
//
// The names are read once, at the start; the directory has a lock, so nobody else serves it. A
// filter is opened when a command needs it, and closed when nothing has for a while, or when others
// need its descriptors. A closed one has no log. A small one takes ten pages, three for its hashes, and
// one for a deadline.
//
// # What survives what
//
// A reply to a write means that it survives the death of the server (C2 of package mmapfilter). It
// survives a power loss after at most a second (the filter's own timer), after WAITAOF, or at once with
// Config.Sync ("appendfsync always").
//
// # Where it differs from RedisBloom
//
//   - CF.RESERVE has one word more, RATE p; without it a filter has Config.Rate. BUCKETSIZE and
//     MAXITERATIONS are checked and shown by CF.INFO, and mean nothing else.
//   - A filter that is full is rebuilt larger, in the background (AutoGrow): there is always one filter,
//     whatever EXPANSION says, no end after 32, and no capacity of at most 2^30. EXPANSION 0 and
//     NONSCALING make one that gets full.
//   - A key that an ADDNX left out, since another answered for it, is never lost when that other is
//     deleted: the filter keeps its history (K7). The price: after such an ADDNX, what CF.DEL deletes
//     answers "maybe" until the next rebuild, which comes by itself when an eighth of the capacity
//     waits, and with CF.COMPACT. With EXPANSION 0 a filter keeps no history, and is as RedisBloom's.
//   - The number of deleted items is not kept: CF.INFO says 0.
//   - The name of a key has at most 200 bytes, once escaped.
//   - There is no SCANDUMP and no LOADCHUNK yet.
//
// # How it is built
//
// Package resp has the protocol. A connection is a goroutine (client), which reads a command, does it,
// and writes its reply before it reads the next; replies are kept together while more commands have
// arrived. So a client that does not read stops itself alone, until the time for a write is over. One
// table (commands) has the name, arity, flags and function of each command.
//
// Locks, in their order: directory.renames (a rename alone has two keys), key.mu (shared by commands
// that use the filter; exclusive to open, close, remove it), then the lock of a bucket (the names),
// directory.deadlines, and directory.mu (which filters are open). Nothing that waits for a client holds
// one.
package server
