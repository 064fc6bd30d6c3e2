// Package httpfile reads parts of a file at a URL, for filters that are asked where they lie: on a
// static web server, or in an object store.
//
//	file, err := httpfile.Open(ctx, "https://example.org/users.mmf", nil)
//	defer file.Close()
//	f, err := mmapfilter.OpenReaderAt(file, file.Size(), &mmapfilter.OpenOptions{ReadSize: 64 << 10})
//	defer f.Close()
//	if !f.ContainsString("alice") { … } // certainly not: one request, with a strong ETag
//
// # Requests
//
// Opening is one request, for the first 32 KiB. Each later one is a GET for a range, and must be
// answered with 206, the same range, the same size and the same ETag; where the server gives none, the
// same Last-Modified. If-Match has the server itself compare. So all bytes are those of one version of
// the file, if the ETag is strong. If there is another one, each read fails from then on, with
// [mmapfilter.ErrSuperseded], and the filter answers "maybe" to every key. A server that gives neither
// tag nor time is refused, and so is one that does not serve ranges.
//
// Where the server sends a weak ETag, or none, another file of the same size and time passes for the
// same. So the filter reads 64 bytes of a superblock again before each "certainly not", and at the end
// of each batch: a single absent key then takes two requests. With a strong ETag it does so once in 128
// single lookups, since pages of the cache may be of a file that is no longer there.
//
// What a server may do wrong for a while is tried again: an error of the network, a body that ends
// early, a status of 429 or 500 and more, a try that takes longer than [Options.Timeout]. A read ends
// with an error, and the answer is "maybe", after [Options.Tries]. So no server can hold a lookup up
// for longer than all tries and the pauses between them.
//
// Some pages of 4 KiB that were read last stay in memory; none of the first 32 KiB.
//
// What is in the bytes is up to the server. To find out whether all are right, verify the file with
// [mmapfilter.VerifyReaderAt], which reads all of it.
package httpfile
