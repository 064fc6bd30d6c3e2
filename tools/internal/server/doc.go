// Package server serves the filters of a directory by RESP: the commands CF.* and BF.* with the replies
// of RedisBloom, and those that clients send around them.
//
// # A key is a file
//
// The file of a key is its name, escaped, and ".mmf". It is an ordinary filter: other processes look
// keys up in it while the server writes, and a filter that another program has made is served when the
// server starts with it in the directory. There is no manifest: the names in the directory are the keys,
// so no crash can make the two differ. What Redis knows of a key and a filter does not (its kind and the
// words of RESERVE) is the filter's note on normalisation, which is made with the file and lasts through
// rebuilds. A deadline (EXPIRE) is a file beside it, NAME.mmf.expire, which is removed after the filter:
// so a crash leaves at most one without a filter, which the next start removes. A crash in a RENAME may
// leave a key without its deadline, never with that of another.
//
// The names are read once, at the start; the directory is locked, so nobody else serves it. A filter is
// opened when a command needs it, and closed when nothing has for a while, or when others need its
// descriptors. A closed one has no log. A small one takes ten pages, three for its hashes, and one for a
// deadline.
//
// # What survives what
//
// A reply to a write means that it survives the death of the server (C2 of package mmapfilter). It
// survives a power loss after about a second (a timer of each filter commits, and one of the server
// syncs the directory), after WAITAOF, or at once with Config.Sync ("appendfsync always"): then the
// replies that a client is owed wait for one sync, which is for all clients that wait for that filter.
// If a sync fails, the client gets an error in their place, and its connection ends.
//
// # Where it differs from RedisBloom
//
//   - CF.RESERVE has one word more, RATE p; without it a filter has Config.Rate. BUCKETSIZE and
//     MAXITERATIONS are checked and shown by CF.INFO, and mean nothing else.
//   - A filter that is full is rebuilt larger, in the background (AutoGrow): there is always one filter,
//     whatever EXPANSION says, no end after 32, and no capacity of at most 2^30. EXPANSION 0 and
//     NONSCALING make one that gets full.
//   - A key that an ADDNX left out, since another answered for it, is never lost when that other is
//     deleted: the filter keeps its history (K7). The price: after an ADDNX has answered 0, what CF.DEL
//     deletes answers "maybe" until the next rebuild, where RedisBloom deletes at once. The rebuild
//     comes by itself when an eighth of the capacity waits, and with CF.COMPACT. With EXPANSION 0 a
//     filter keeps no history, and is as RedisBloom's.
//   - LOADCHUNK takes the dumps of this server alone, and the key is there after the last chunk, not
//     after the first. A dump has all that was answered when its first chunk was asked for. A filter
//     that grows does so after a load, too.
//   - EXEC does the commands after MULTI one after another; those of others may come in between.
//   - SCAN answers with all keys at once, and the cursor 0.
//   - The number of deleted items is not kept: CF.INFO says 0.
//   - Nobody is told what changes (CLIENT TRACKING): rueidis needs its DisableCache.
//   - The name of a key has at most 200 bytes, once escaped.
//
// KVROCKS.md has what the tests of Kvrocks want and what this server replies, case by case.
//
// # How it is built
//
// Package resp has the protocol. A connection is a goroutine (client), which reads a command, does it,
// and keeps its reply; it writes the replies that are kept before it reads from the connection again.
// So a client that does not read stops itself alone, until the time for a write is over. One
// table (commands) has the name, arity, flags and function of each command.
//
// Locks, in their order: directory.renames (a rename alone has two keys), key.mu (shared by commands
// that use the filter; exclusive to open, close and remove it), then those of directory that take
// no other: deadlines, names (of files), and mu (which filters are open). Nothing that waits for a
// client holds one.
package server
