package crashsim

import (
	"fmt"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Point is the state of the filter at the LSN at which an operation or a commit ends.
type Point struct {
	LSN     uint64
	UserSeq uint64
	// The number of operations after the user sequence is from OpMin to OpMax, since
	// those that change nothing have no record.
	OpMin, OpMax uint64
	Length       uint64
	Counts       Counts
	Next         int      // next operation of the trace
	Image        []uint64 // stash and region
}

// A State is what is known of a volume that no process has open.
type State struct {
	points []Point // what it may be, in order of LSN
	floor  uint64  // LSN up to which it is durable
	must   Counts  // what was synced and not deleted since
	// torn is set after a power loss, until a recovery tells the readers.
	torn bool
	past *history // history of readers that survive the crash, or nil
}

// A Violation is a broken oracle.
type Violation struct {
	Oracle string // O1 to O9
	What   string
	Chain  []string // the crashes that led to it
	Trace  *Trace
}

func (v *Violation) Error() string {
	s := fmt.Sprintf("%s: %s\n%s\n", v.Oracle, v.What, v.Trace)
	for _, c := range v.Chain {
		s += "  " + c + "\n"
	}
	return s
}

// recovered returns the point that a recovery has led to (O1).
func (l *life) recovered(r *recovery.Recovery) Point {
	image := l.u().image(l.v)
	points := l.known()
	if r.LSN < l.floor {
		l.fail("O1", "the recovery ends at LSN %d, and %d was durable", r.LSN, l.floor)
	}
	i := -1
	for i+1 < len(points) && points[i+1].LSN <= r.LSN {
		i++
	}
	if i < 0 {
		l.fail("O1", "the recovery ends at LSN %d, before the first of all", r.LSN)
	}
	reasons := ""
	for _, p := range points[i:min(i+2, len(points))] {
		reason := ""
		switch {
		case r.UserSeq != p.UserSeq || r.Operations < p.OpMin || r.Operations > p.OpMax:
			reason = fmt.Sprintf("user sequence %d and %d operations, not %d and %d to %d", r.UserSeq, r.Operations, p.UserSeq, p.OpMin, p.OpMax)
		case r.Length != p.Length:
			reason = fmt.Sprintf("%d items, not %d", r.Length, p.Length)
		case !slices.Equal(image, p.Image):
			reason = differ(image, p.Image)
		}
		if reason == "" {
			p.LSN = r.LSN
			return p
		}
		reasons += fmt.Sprintf("; as at LSN %d: %s", p.LSN, reason)
		if p.LSN == r.LSN {
			break
		}
	}
	l.fail("O1", "the recovery ends at LSN %d%s", r.LSN, reasons)
	return Point{}
}

// differ says in how many words two images differ, and in which first.
func differ(got, want []uint64) string {
	n, first := 0, -1
	for i := range got {
		if got[i] != want[i] {
			if n++; first < 0 {
				first = i
			}
		}
	}
	return fmt.Sprintf("%d words of stash and region, the first of them word %d of the file: %#x, not %#x",
		n, layout.WordStash+first, got[first], want[first])
}

// fillerChecks is how many of the items that no trace touches are checked at a time.
const fillerChecks = 16

// present checks O2 and O3 on the words of a file: every item is found, and has a copy of
// its own.
func (l *life) present(counts *Counts, words func(word uint64) uint64) {
	u := l.u()
	for i := range u.keys {
		if counts[i] != 0 && !layout.Lookup(u.table, words, u.keys[i].hash) {
			l.fail("O3", "key %d is answered absent", i)
		}
	}
	var first int
	if n := len(u.fillers); n > fillerChecks {
		first = l.x.rng.IntN(n - fillerChecks)
	}
	for i := first; i < min(first+fillerChecks, len(u.fillers)); i++ {
		if !layout.Lookup(u.table, words, u.fillers[i].hash) {
			l.fail("O3", "filler %d is answered absent", i)
		}
		if c := u.fillers[i].place.Class; c >= u.mine {
			l.copies(c, counts, words)
		}
	}
	for c := range u.mine {
		l.copies(c, counts, words)
	}
}

// copies checks O2 for a class.
func (l *life) copies(number int, counts *Counts, words func(word uint64) uint64) {
	u := l.u()
	c := u.static.Class(number)
	if number < u.mine {
		for _, k := range u.keysOf[number] {
			c.Items[u.keys[k].place.Side] += int(counts[k])
		}
	}
	if err := c.Check(u.table, words); err != nil {
		l.fail("O2", "class %d: %v", number, err)
	}
}
