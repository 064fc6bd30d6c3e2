package main

import "fmt"

// Operations go in streams, one for each goroutine of the writer. A key belongs to the stream of
// its class. So operations in progress in two streams never affect the same Count. A key stays in
// its stream in every life of the writer: the next one repeats what the last one issued, in the
// same stream.
//
// A stream keeps its last operations in the page, by number. They are entered, issued, made and
// returned, in this order. If more were issued than returned, the page says which are uncertain.
const (
	streams     = 4
	streamRing  = 16
	streamWords = 8 + streamRing
)

// The streams must not overlap the keys of the page: a negative constant does not compile.
const _ = uint(pageKeys - (pageStreams + streams*streamWords))

const (
	streamIssued = iota
	streamReturned
	streamOps = 8
)

// An op is an operation on a key.
type op struct {
	id     int
	delete bool
}

func (o op) String() string {
	if o.delete {
		return fmt.Sprintf("delete of key %d", o.id)
	}
	return fmt.Sprintf("insert of key %d", o.id)
}

// A stream is the part of the page for one stream.
type stream struct {
	*page
	at int // its first word
}

func (p *page) stream(n int) stream { return stream{p, pageStreams + n*streamWords} }

func (s stream) issued() uint64   { return s.get(s.at + streamIssued) }
func (s stream) returned() uint64 { return s.get(s.at + streamReturned) }

// op returns operation n, which must be one of the last streamRing.
func (s stream) op(n uint64) op {
	w := s.get(s.at + streamOps + int(n%streamRing))
	return op{int(w / 2), w%2 == 1}
}

// issue enters operations, and then counts them as issued.
func (s stream) issue(ops ...op) {
	n := s.issued()
	for i, o := range ops {
		w := uint64(o.id) * 2
		if o.delete {
			w++
		}
		s.set(s.at+streamOps+int((n+uint64(i))%streamRing), w)
	}
	s.set(s.at+streamIssued, n+uint64(len(ops)))
}

// done counts n more operations as returned.
func (s stream) done(n int) { s.set(s.at+streamReturned, s.returned()+uint64(n)) }

// drop forgets the operations that were issued and have not returned.
func (s stream) drop() { s.set(s.at+streamIssued, s.returned()) }

// returnedOps returns how many operations of all streams have returned.
func (p *page) returnedOps() (n uint64) {
	for i := range streams {
		n += p.stream(i).returned()
	}
	return n
}

// issuedOps returns how many operations of all streams were issued.
func (p *page) issuedOps() (n uint64) {
	for i := range streams {
		n += p.stream(i).issued()
	}
	return n
}
