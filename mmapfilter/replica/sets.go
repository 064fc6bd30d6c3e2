package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

const (
	maxSets  = 16       // sets of changes that are computed or sent at a time
	mostKept = 16 << 20 // bytes of all sets that are kept; each counts for a 64th of this or more
)

// largest is how many bytes a set that is kept may have. It is a variable for tests.
var largest = 4 << 20

// A set is a set of changes. The request that asked for it first computes it, and the others wait. The
// last sets are kept. So a hundred replicas that are at one position cost one computation. A set
// answers no request that comes after a later commit: each answer has all that was durable before.
type set struct {
	since   mmapfilter.Position
	classes mmapfilter.Classes
	at      mmapfilter.Position // of the filter, when the computation began
	data    bytes.Buffer
	whole   chan struct{} // closed when the set is whole or has failed: then data, to and err stay
	to      mmapfilter.Position
	err     error
}

// errTooManyChanges says that a set is not kept, since it is too large.
var errTooManyChanges = errors.New("too many changes to keep them")

// Write adds to the set.
func (s *set) Write(b []byte) (int, error) {
	if s.data.Len()+len(b) > largest {
		return 0, errTooManyChanges
	}
	return s.data.Write(b)
}

// send sends the set in pieces, of which a client must take each in time.
func (s *set) send(to io.Writer) error {
	for piece := range slices.Chunk(s.data.Bytes(), minRate) {
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// set returns the set of changes since a position, with the filter at now.
func (p *publisher) set(ctx context.Context, since mmapfilter.Position, classes mmapfilter.Classes, now mmapfilter.Position) (*set, error) {
	if now.Number-since.Number > uint64(largest) { // or the request must be refused
		return nil, errTooManyChanges
	}
	p.kept.Lock()
	i := slices.IndexFunc(p.kept.sets, func(s *set) bool {
		return s.since == since && s.classes == classes && (s.at == now || s.to == now)
	})
	if i < 0 {
		s := &set{since: since, classes: classes, at: now, whole: make(chan struct{})}
		p.kept.sets = append(p.kept.sets, s)
		p.kept.Unlock()
		p.compute(context.WithoutCancel(ctx), s) // others wait for it
		return s, s.err
	}
	s := p.kept.sets[i]
	p.kept.Unlock()
	select {
	case <-s.whole:
		return s, s.err
	case <-ctx.Done():
		return nil, errComeAgain
	}
}

// compute computes a set, and keeps it if it does not fail. The oldest sets give way.
//
// A set that leads nowhere, or back, is not kept. In a process that reads, the position of the filter
// stays what it is once another file is at the path; so it does not tell when such a set is out of date.
func (p *publisher) compute(ctx context.Context, s *set) {
	defer close(s.whole)
	err := take(ctx, p.places)
	var to mmapfilter.Position
	if err == nil {
		to, err = p.filter.ChangesFor(ctx, s, s.since, s.classes)
		<-p.places
	}
	p.kept.Lock()
	defer p.kept.Unlock()
	s.to, s.err = to, err
	p.kept.computed++
	past := to == s.since || to.Number < s.at.Number
	room := mostKept
	for i, other := range slices.Backward(p.kept.sets) {
		if other.to.IsZero() && other != s {
			continue // somebody computes it
		}
		if room -= max(other.data.Len(), mostKept/64); room < 0 || other.err != nil || other == s && past {
			p.kept.sets = slices.Delete(p.kept.sets, i, i+1)
		}
	}
}
