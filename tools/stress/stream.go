package main

import "fmt"

// Operations go in streams, one for each goroutine of the writer. A key belongs to
// the stream of its class, so that no two streams have an operation under way that
// Count could not tell from one another. It does in every life of the writer: what one
// has issued, the next repeats in that stream.
//
// A stream has its last operations in the page, under their numbers: they are
// entered, issued, made and returned, in this order. If more have been issued than have
// returned, the page says which ones are uncertain.
const (
	streams     = 4
	streamRing  = 16
	streamWords = 8 + streamRing
)

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

// A stream is one of them, in the page.
type stream struct {
	*page
	at int // its first word
}

func (p *page) stream(n int) stream { return stream{p, pageStreams + n*streamWords} }

func (s stream) issued() uint64   { return s.get(s.at + streamIssued) }
func (s stream) returned() uint64 { return s.get(s.at + streamReturned) }

// op gives operation n, one of the last.
func (s stream) op(n uint64) op {
	w := s.get(s.at + streamOps + int(n%streamRing))
	return op{int(w / 2), w%2 == 1}
}

// issue enters operations.
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

// done says that so many more have returned.
func (s stream) done(n int) { s.set(s.at+streamReturned, s.returned()+uint64(n)) }

// drop forgets the operations that were issued and have not returned.
func (s stream) drop() { s.set(s.at+streamIssued, s.returned()) }

// returnedOps gives how many operations of all streams have returned.
func (p *page) returnedOps() (n uint64) {
	for i := range streams {
		n += p.stream(i).returned()
	}
	return n
}

// issuedOps gives how many have been issued.
func (p *page) issuedOps() (n uint64) {
	for i := range streams {
		n += p.stream(i).issued()
	}
	return n
}
