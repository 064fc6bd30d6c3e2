// Package replica keeps copies of a filter on other machines up to date, over HTTP. One program writes
// to the filter and publishes it; each of the other programs has a file of its own, which it maps like
// any other filter.
//
//	http.Handle("/users/", http.StripPrefix("/users", replica.Handler(f)))    // f keeps its hashes
//
//	r, err := replica.Follow(ctx, "https://filters.example.org/users", "/var/lib/app/users.mmf", nil)
//	defer r.Close()
//	if !r.ContainsString("alice") { … } // certainly not, as of r.Stats().Position
//
// From the shell: mmapfilter publish and mmapfilter replicate.
//
// # What is promised
//
// A replica has the keys that the history of the filter means (K7 of package hashes) at one position,
// and moves from there to later positions. Once the insert of a key has been applied, the key is never
// answered "certainly not" until its delete is applied, whichever side is killed, and whatever the
// network drops, delays, cuts off, damages or repeats. Each set of changes is applied exactly once,
// and a snapshot replaces the file only once it is complete and verified. [Stats] says how far the
// replica is behind.
//
// A replica follows whatever is at the URL. If the filter there was restored from a backup, or built
// anew, the replica becomes a copy of the restored or new filter.
//
// A replica from Follow keeps no hashes: it does not grow by itself, and cannot be published in turn.
// If changes do not fit into it any more, it takes a new snapshot, which is larger. Nobody else may
// write to its file: Follow holds the lock. Readers in other processes open the file with
// mmapfilter.Follow, which notices new snapshots.
//
// # How it works
//
// A replica without a file downloads a snapshot to NAME.part, verifies it, and gives it the name. A
// download that was cut off goes on with a range request. Then the replica asks for the changes since
// its position, again and again, a second apart ([Options.Interval]). The server holds such a request
// until there are changes, or for [Options.Wait]. So changes arrive as soon as they are committed, few
// requests return nothing, and the code is as short as for requests at intervals. (An endless stream
// would save some requests, but would need rules for a broken stream. Here, if an answer is not
// complete, the replica asks again.)
//
// The server computes each answer from the history, and stores nothing about replicas. It keeps the
// last answers for a while, since replicas at the same position can share an answer: a hundred
// replicas that are up to date cost about as much as one. Changes are net: a key that came and went in
// between is not sent. Options.KeepChanges of the filter says how long a position stays usable; a
// replica that was away for longer takes a new snapshot.
//
// A cache or proxy in between must respect the handler's Cache-Control, and must not compress answers
// or buffer them for longer than Options.Wait.
//
// # TLS and authentication
//
// The program provides both, on both sides, as with any use of net/http. A Handler serves whoever
// reaches it, and whoever has a snapshot has the seed and the fingerprints of all keys. So give the
// server a certificate, and wrap the handler; give the client the authorization and, for a private
// certificate authority, a transport:
//
//	http.ListenAndServeTLS(":8443", "cert.pem", "key.pem", withToken(token, replica.Handler(f)))
//
//	o := &replica.Options{Header: http.Header{"Authorization": {"Bearer " + token}}}
//	o.Client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own}}}
//	r, err := replica.Follow(ctx, "https://filters.example.org:8443", "users.mmf", o)
//
// The example of the package has all of this code. Certificates of clients work the same way,
// by tls.Config.ClientAuth and tls.Config.Certificates. An http.Server that has only this
// handler should have a ReadHeaderTimeout.
//
// # What the other side may do
//
// The server disconnects a client that takes less than 16 KiB a second, creates one snapshot at a time,
// and sends at most 16 sets of changes at a time. But a client that keeps asking keeps a processor
// busy, so let only replicas in. The server decides what a replica answers. It may send no more than
// Options.MaxBytes at a time, and the replica checks what it gets before using it; lookups go on
// meanwhile.
package replica
