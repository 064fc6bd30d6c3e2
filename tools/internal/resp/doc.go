// Package resp reads the commands and writes the replies of RESP, the protocol of Redis, in its
// versions 2 and 3.
//
// A command comes as an array of strings, or as a line of words, as people type it:
//
//	*2\r\n$3\r\nGET\r\n$1\r\nk\r\n
//	GET k\r\n
//
// Every length is checked against [Limits] before a byte is allocated for it, and memory grows only
// as bytes arrive, so a header that announces a large length costs nothing. A broken command is a
// [ProtocolError], after which the stream cannot be read on, since nobody knows where the next
// command begins. Clients send no nested arrays, so there is no depth to limit.
//
// A [Writer] keeps replies until Flush. A server that flushes when they are long, and does not go on
// before Flush returns, keeps little more than one reply for a client that does not read.
package resp
