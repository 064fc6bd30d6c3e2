// Package httpfile reads parts of a file at a URL. So a program can use a filter without a copy: on a
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
// Opening is one request, for the first 32 KiB. Each later request is a GET for a range. The answer
// must have status 206, the same range, the same size, and the same ETag or, if the server sends no
// ETag, the same Last-Modified. With If-Match, the server itself compares the ETag. So with a strong
// ETag, all bytes come from one version of the file. Once there is another version, each read fails
// with [mmapfilter.ErrSuperseded], and the filter answers "maybe" to every key. Open refuses a server
// that sends neither ETag nor time, or that does not serve ranges.
//
// If the server sends a weak ETag, or none, httpfile cannot tell another file of the same size and
// time from the first one. So the filter reads 64 bytes of a superblock again before each "certainly
// not", and at the end of each batch; a single absent key then takes two requests. With a strong ETag
// the filter does so once in 128 single lookups, since pages in the cache may come from a file that is
// no longer there.
//
// After a failure that may be temporary, the request is tried again: after a network error, a body
// that ends early, a status of 408, 429, or at least 500, or a try that takes longer than
// [Options.Timeout]. After [Options.Tries] tries, the read returns an error, and the answer is
// "maybe". So no server can delay a lookup for longer than all tries and the pauses between them.
//
// The pages of 4 KiB that were read last stay in memory ([Options].CacheBytes), except those of
// the first 32 KiB.
//
// The server decides what the bytes are. To find out whether all of them are right, verify the file
// with [mmapfilter.VerifyReaderAt], which reads the whole file.
package httpfile
