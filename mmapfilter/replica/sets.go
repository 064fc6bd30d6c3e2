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
	mostKept = 16 << 20 // bytes of all sets that are kept; each set counts as at least a 64th of this
)

// largest is the most bytes that a set may have to be kept. It is a variable for tests.
var largest = 4 << 20

// A set is a set of changes. The first request that asks for it computes it, and other requests wait.
// The last sets are kept. So a hundred replicas at the same position cost one computation. A set
// answers no request that comes after a later commit, so each answer has all that was durable when the
// request came.
type set struct {
	since   mmapfilter.Position
	classes mmapfilter.Classes
	at      mmapfilter.Position // of the filter, when the computation began
	data    bytes.Buffer
	whole   chan struct{} // closed when the set is whole or has failed; after that, data, to and err do not change
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

// send sends the set in pieces. The client must take each piece in time.
func (s *set) send(to io.Writer) error {
	for piece := range slices.Chunk(s.data.Bytes(), minRate) {
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// set returns the set of changes since a position. now is the position of the filter.
func (p *publisher) set(ctx context.Context, since mmapfilter.Position, classes mmapfilter.Classes, now mmapfilter.Position) (*set, error) {
	if now.Number-since.Number > uint64(largest) { // also if since is later than now, which ChangesFor refuses
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

// compute computes a set, and keeps it unless it fails. It drops the oldest sets if there is no room.
//
// A set that ends at its own beginning, or before the position of the filter, is not kept. In a process
// that only reads, the position of the filter does not change once another file is at the path, so
// nothing shows when such a set is out of date.
func (p *publisher) compute(ctx context.Context, s *set) {
	defer close(s.whole)
	to, err := mmapfilter.Position{}, errComeAgain // if ChangesFor panics
	defer func() { p.keep(s, to, err) }()
	if busy := take(ctx, p.places); busy != nil {
		return
	}
	defer func() { <-p.places }()
	to, err = p.filter.ChangesFor(ctx, s, s.since, s.classes)
}

// keep ends a computation with its results.
func (p *publisher) keep(s *set, to mmapfilter.Position, err error) {
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
