// Package server serves the filters of a directory by RESP: the commands CF.* and BF.* with the replies
// of RedisBloom, and the general commands that clients send.
//
// # A key is a file
//
// The name of the file of a key is the key, escaped, and ".mmf". The file is an ordinary filter:
// other processes can look keys up in it while the server writes, and the server serves any filter
// that is in the directory when it starts. There is no manifest, because the names in the directory
// are the keys: no crash can make keys and files differ. A filter has no fields for the kind of a
// key and the options of RESERVE, so its note on normalisation has them. The note is written with
// the file and lasts through rebuilds. A deadline (EXPIRE) is in a file beside the filter,
// NAME.mmf.expire. The file of the deadline is removed after the filter, so a crash leaves at most
// a deadline without a filter, which the next start removes. A crash during RENAME may leave a key
// without its deadline, but never with the deadline of another key.
//
// The server reads the names once, at the start, and locks the directory, so nobody else serves it.
// A filter is opened when a command needs it, and closed when no command has needed it for a while,
// or when other filters need its descriptors. A closed filter has no log. On disk, a small filter
// takes ten pages, its hashes three more, and a deadline one.
//
// # What survives what
//
// A write that was answered survives the death of the server (C2 of package mmapfilter). It
// survives a power loss after about a second (a timer of each filter commits, and one of the server
// syncs the directory), after WAITAOF, or at once with Config.Sync ("appendfsync always"): then the
// replies to a client wait for a sync, which serves all clients that wait for the same filter. If a
// sync fails, the client gets an error instead of these replies, and its connection ends.
//
// A command that removes a key replies once this is durable. From then on, other processes that have its
// file open answer "maybe" for each item that they do not find, since a new key of this name has another
// file. After a RENAME they go on with the file, which now has the new name. A follower looks at the old
// name again after its interval.
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
//     once. CF.COMPACT starts a rebuild, and one starts by itself when the number of waiting deletes
//     reaches an eighth of the capacity. With EXPANSION 0 a filter keeps no history, and behaves as in
//     RedisBloom.
//   - LOADCHUNK takes only dumps that a server of this kind has made of the same kind of filter, CF or
//     BF. The key exists after the last chunk, not after the first. A dump has every write that was
//     answered before the first chunk was asked for. A filter that grows by itself also does so after
//     a load.
//   - EXEC does the commands after MULTI one after another; commands of other clients may come
//     in between.
//   - SCAN answers with all keys at once, and the cursor 0.
//   - CF.INFO always reports 0 deleted items, because their number is not kept.
//   - Clients are not told of changes (CLIENT TRACKING), so rueidis needs its option DisableCache.
//   - The name of a key has at most 200 bytes, once escaped.
//
// KVROCKS.md compares, case by case, what the tests of Kvrocks expect with what this server
// replies.
//
// # How it is built
//
// Package resp has the protocol. A client has a turn when it has sent something: the server reads
// once, does the commands that it has read, collects their replies, and writes these. On Linux one
// goroutine gives many clients their turns (poller), since waking a goroutine takes longer than a
// lookup; elsewhere each client has a goroutine. A client that waits, or takes long, holds up only
// itself (detach). For a client that does not read, the server keeps little, and only until the
// time for a write is over. A lookup of a page that is not in memory is an exception: while the
// disk reads the page, Go gives the processor of the lookup to nobody else. GOMAXPROCS such
// lookups at once hold up all clients. One table (commands) has the name, arity, flags and function
// of each command.
//
// Locks are taken in this order: directory.renames (only a rename locks two keys), key.mu (shared
// by commands that use the filter; exclusive to open, close and remove it), then three locks of
// directory under which no other lock is taken: deadlines, names (of files), and mu (which filters
// are open). Server.mu and then poller.mu guard which clients there are, and who serves them.
// Nobody holds a lock while waiting for a client.
package server
