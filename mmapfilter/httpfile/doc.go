// Package httpfile reads parts of a file at a URL, for filters that are asked where they lie: on a
// static web server, or in an object store. It is the only package of the library that uses net/http.
//
//	file, err := httpfile.Open(ctx, "https://example.org/users.mmf", nil)
//	defer file.Close()
//	f, err := mmapfilter.OpenReaderAt(file, file.Size(), &mmapfilter.OpenOptions{ReadSize: 64 << 10})
//	defer f.Close()
//	if !f.ContainsString("alice") { … } // certainly not: one request
//
// # Requests
//
// Opening is one request, for the first 32 KiB. Each later one is a GET for a range, and must be
// answered with 206, the same range, the same size and the same ETag; where the server gives none, the
// same Last-Modified. If-Match has the server itself compare. So all bytes are those of one version of
// the file. If there is another one, each read fails from then on, with [mmapfilter.ErrSuperseded],
// and the filter answers "maybe" to every key. A server that gives neither tag nor time is refused,
// since nobody would notice a change, and so is one that does not serve ranges.
//
// What a server may do wrong for a while is tried again: an error of the network, a body that ends
// early, a status of 429 or 500 and more, a try that takes longer than [Options.Timeout]. A read ends
// with an error, and the answer is "maybe", after [Options.Tries]. So no server can hold a lookup up
// for longer than all tries and the pauses between them.
//
// The first 32 KiB stay in memory, and so do some pages of 4 KiB that were read last.
//
// What is in the bytes is up to the server. To find out whether all are right, verify the file with
// [mmapfilter.VerifyReaderAt], which reads all of it.
package httpfile
