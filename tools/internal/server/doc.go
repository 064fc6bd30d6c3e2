// Package server serves the filters of a directory by RESP: the commands CF.* and BF.* with the replies
// of RedisBloom, and the general commands that clients send.
//
// # A key is a file
//
// The name of the file of a key is the key, escaped, and ".mmf". The file is an ordinary filter: other
// processes look keys up in it while the server writes, and a filter that another program has made is
// served when the server starts with it in the directory. There is no manifest: the names in the
// directory are the keys, so no crash can make the two differ. A filter has no fields for the kind of a
// key and the options of RESERVE, so its note on normalisation has them: the note is made with the file
// and lasts through rebuilds. A deadline (EXPIRE) is in a file beside the filter, NAME.mmf.expire. The
// file of the deadline is removed after the filter, so a crash leaves at most a deadline without a
// filter, which the next start removes. A crash in a RENAME may leave a key without its deadline, but
// never with the deadline of another key.
//
// The names are read once, at the start; the directory is locked, so nobody else serves it. A filter is
// opened when a command needs it, and closed when no command has needed it for a while, or when other
// filters need its descriptors. A closed filter has no log. A small filter takes ten pages on disk,
// three more for its hashes, and one for a deadline.
//
// # What survives what
//
// A reply to a write means that it survives the death of the server (C2 of package mmapfilter). It
// survives a power loss after about a second (a timer of each filter commits, and one of the server
// syncs the directory), after WAITAOF, or at once with Config.Sync ("appendfsync always"): then the
// replies to a client wait for a sync, which serves all clients that wait for the same filter. If a
// sync fails, the client gets an error instead of these replies, and its connection ends.
//
// # Where it differs from RedisBloom
//
//   - CF.RESERVE takes one more option, RATE p. Without it a filter has Config.Rate. BUCKETSIZE
//     and MAXITERATIONS are checked and shown by CF.INFO, and mean nothing else.
//   - A filter that is full is rebuilt larger, in the background (AutoGrow): a key is always one filter,
//     whatever EXPANSION says. There is no limit of 32 growths, and a capacity may be above 2^30. With
//     EXPANSION 0 or NONSCALING a filter does not grow, and gets full.
//   - An item that an ADDNX left out, since another item answered for it, is not lost when the other
//     item is deleted: the filter keeps its history (K7). The price: after an ADDNX has answered 0, an
//     item that CF.DEL deletes is answered "maybe" until the next rebuild; RedisBloom deletes it at
//     once. The rebuild comes by itself when as many deletes wait as an eighth of the capacity, and
//     with CF.COMPACT. With EXPANSION 0 a filter keeps no history, and behaves like a filter of
//     RedisBloom.
//   - LOADCHUNK takes only dumps that a server of this kind has made of the same kind of filter, CF or
//     BF. The key is there after the last chunk, not after the first. A dump has everything that was
//     answered before its first chunk was asked for. A filter that grows by itself also does so after
//     a load.
//   - EXEC does the commands after MULTI one after another; commands of other clients may come
//     in between.
//   - SCAN answers with all keys at once, and the cursor 0.
//   - The number of deleted items is not kept: CF.INFO says 0.
//   - Clients are not told of changes (CLIENT TRACKING): rueidis needs its DisableCache.
//   - The name of a key has at most 200 bytes, once escaped.
//
// KVROCKS.md has what the tests of Kvrocks want and what this server replies, case by case.
//
// # How it is built
//
// Package resp has the protocol. A client has a turn when it has sent something: the server reads
// once, does the commands that it has read, collects their replies, and writes these. On Linux one
// goroutine gives many clients their turns (poller), since waking a goroutine takes longer than a
// lookup; elsewhere each client has a goroutine. A client that waits, or takes long, holds up only
// itself (detach), and for a client that does not read, the server keeps little, until the time for
// a write is over. A lookup of a page that is not in memory is an exception: while the disk reads
// the page, Go gives the processor of the lookup to nobody else. As many such lookups as GOMAXPROCS
// hold up all clients. One table (commands) has the name, arity, flags and function of each
// command.
//
// Locks, in their order: directory.renames (a rename alone has two keys), key.mu (shared by commands
// that use the filter; exclusive to open, close and remove it), then three locks of directory under
// which no other lock is taken: deadlines, names (of files), and mu (which filters are open).
// Server.mu and then poller.mu guard which clients there are, and who serves them. Nobody holds a lock
// while waiting for a client.
package server
