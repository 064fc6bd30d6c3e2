// Package replica keeps copies of a filter on other machines up to date, over HTTP. One program writes
// to the filter and publishes it; each other program has a file of its own, which it maps as any
// filter.
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
// and moves from there to later positions. A key that has been applied is never answered "certainly
// not" until its delete is applied: whichever side is killed, and whatever the network drops, delays,
// cuts off, damages or repeats. Each set of changes is applied exactly once, and a snapshot takes the
// place of the file only once it is whole and verified. [Stats] say how far the replica is behind.
//
// A replica follows whatever is at the URL. If the filter there was restored from a backup, or built
// anew, the replica becomes a copy of the restored or new filter.
//
// A replica that Follow makes keeps no hashes: it does not grow by itself, and cannot be published in
// turn. If changes do not fit into it any more, it takes a new snapshot, which is larger. Nobody else
// may write to its file: Follow holds the lock. Readers in other processes open it with
// mmapfilter.Follow, which notices new snapshots.
//
// # How it works
//
// A replica without a file downloads a snapshot to NAME.part, verifies it, and gives it the name. A
// download that was cut off goes on with a range request. Then the replica asks for the changes since
// its position, again and again, a second apart ([Options.Interval]). The server holds such a request
// until there are changes, or for [Options.Wait]. So changes arrive as soon as they are committed, few
// requests find no changes, and the code is as short as for requests at intervals. (A stream that
// never ends would save some requests, but would need rules for a broken stream. Here, each answer is
// whole, or is asked for again.)
//
// The server computes each answer from the history, and keeps nothing about replicas. It keeps the last
// answers for a while, since replicas that are at one position can share an answer: a hundred that are
// up to date cost about as much as one. Changes are net: a key that came and went in between is not
// sent. How long a position stays usable is up to Options.KeepChanges of the filter; a replica that was
// away for longer takes a new snapshot.
//
// Behind a cache or a proxy, the handler's Cache-Control must be respected, and answers must not be
// compressed or buffered for longer than Options.Wait.
//
// # TLS and authentication
//
// The program provides both, on both sides, as with any use of net/http: a Handler serves whoever
// reaches it, and whoever has a snapshot has the seed and the fingerprints of all keys. Give the server
// a certificate, and wrap the handler; give the client the authorization, and, for a private authority,
// a transport:
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
// A client that takes less than 16 KiB a second is cut off, one snapshot is made at a time, and at most
// 16 sets of changes are sent at a time; but a client that asks without end keeps a processor busy, so
// let only replicas in. A server decides what a replica answers, and may send no more than
// Options.MaxBytes at a time. What it sends is checked before it is used, and lookups go on meanwhile.
package replica
