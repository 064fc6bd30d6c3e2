package crashsim

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A copier copies the file of a life while the writer stores to it, as another process does (O10). It
// has its own randomness, and changes nothing.
type copier struct {
	l    *life
	rng  *rand.Rand
	copy *recovery.Copy // the copy that is under way, or nil
	to   []uint64
	from uint64 // LSN that was durable when the copy began
	odds int    // the copy goes on after one event in odds
	done []copied
}

// A copied is a copy that has ended. It must be equal to a point, which may be noted only
// later.
type copied struct {
	sb    layout.Superblock
	floor uint64
	image []uint64
}

// After one event in copyBegins, a copy begins. It takes a step after one event in odds, which is
// drawn for each copy and is at most copySteps. A life has at most mostCopies copies.
const (
	copyBegins = 60
	copySteps  = 128
	mostCopies = 8
)

// newCopier copies the file of a life from now on.
func newCopier(l *life) *copier {
	c := &copier{l: l, rng: rand.New(rand.NewPCG(l.x.trace.Seed, uint64(l.depth)))}
	l.v.each = func(Event) { c.event() }
	return c
}

func (c *copier) event() {
	switch l := c.l; {
	case l.w == nil || len(c.done) == mostCopies: // the filter is being opened, or has enough copies
	case c.copy == nil && c.rng.IntN(copyBegins) == 0:
		c.begin()
	case c.copy != nil && c.rng.IntN(c.odds) == 0:
		c.step()
	}
}

func (c *copier) begin() {
	l := c.l
	_, _, durable := l.w.Durable()
	c.from = max(durable, l.floor)
	words := l.v.filter.cache.words
	c.to, c.odds = make([]uint64, len(words)), 1+c.rng.IntN(1+c.rng.IntN(copySteps))
	var err error
	if c.copy, err = recovery.NewCopy(words, c.to, copyLogs{l.v}); err != nil {
		c.failed(err)
	}
}

func (c *copier) step() {
	more, err := c.copy.Step(uint64(1 + c.rng.IntN(len(c.to)/4)))
	if more || err != nil {
		if err != nil {
			c.failed(err)
		}
		return
	}
	sb, err := c.copy.End()
	if err != nil {
		c.failed(err)
		return
	}
	c.l.x.stats.Copies++
	end := layout.WordRegion + c.l.u().geometry.RegionBytes/8
	c.done, c.copy = append(c.done, copied{sb, c.from, slices.Clone(c.to[layout.WordStash:end])}), nil
}

func (c *copier) failed(err error) {
	if c.copy = nil; !errors.Is(err, recovery.ErrChanging) {
		c.l.fail("O10", "copy: %v", err)
	}
	c.l.x.stats.Changing++
}

// check compares the copies with the points.
func (c *copier) check() {
	for _, d := range c.done {
		r := &recovery.Recovery{LSN: d.sb.CheckpointLSN(), UserSeq: d.sb.UserSeq(), Operations: d.sb.Operation(), Length: d.sb.Length()}
		c.l.leadsTo("O10", "a copy", r, d.floor, d.image)
	}
}

// copyLogs is a recovery.LogReader.
type copyLogs struct{ v *Volume }

func (c copyLogs) ReadLog(n recovery.LogName) ([]uint64, error) {
	l, err := c.v.log(name(n))
	if err != nil {
		return nil, err
	}
	return l.Words(), nil
}
