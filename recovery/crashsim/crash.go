package crashsim

import (
	"fmt"
	"math/rand/v2"
)

// A crash describes one crash, for the report.
type crash struct {
	depth, op, event int
	kind             Event
	how              string
}

func (c crash) String() string {
	when := fmt.Sprintf("at operation %d", c.op)
	if c.op < 0 {
		when = "while the filter is opened"
	}
	kind := [...]string{
		"a store", "a store to a superblock", "a store to the log", "a store that readers see",
		"the beginning of a sync", "the end of a sync", "a change of names",
	}[c.kind]
	return fmt.Sprintf("%s, after event %d, %s: %s", when, c.event, kind, c.how)
}

func (x *worker) chainText() (text []string) {
	for _, c := range x.chain {
		text = append(text, c.String())
	}
	return text
}

// biases are distributions of which versions of sectors reach the disk before a power
// loss.
var biases = [...]struct {
	name string
	keep func(rng *rand.Rand, versions uint32) uint32
}{
	{"any version", func(rng *rand.Rand, n uint32) uint32 { return rng.Uint32N(n + 1) }},
	{"mostly old", func(rng *rand.Rand, n uint32) uint32 {
		if rng.IntN(8) != 0 {
			return 0
		}
		return rng.Uint32N(n + 1)
	}},
	{"mostly new", func(rng *rand.Rand, n uint32) uint32 {
		if rng.IntN(8) != 0 {
			return n
		}
		return rng.Uint32N(n + 1)
	}},
	{"old or newest", func(rng *rand.Rand, n uint32) uint32 { return n * rng.Uint32N(2) }},
}

// fork crashes a copy of the volume of a life, and recovers it.
func (x *worker) fork(l *life, e Event) {
	st := l.state()
	child := x.get()
	c := crash{depth: l.depth, op: l.op, event: l.v.events, kind: e}
	if !l.opened {
		c.op = -1
	}
	if x.rng.IntN(10) < 3 {
		child.kill(l.v)
		c.how = "kill"
		if st.past != nil {
			if x.trace.readers && x.rng.IntN(2) == 0 {
				st.past = st.past.upTo(l.v.events)
			} else {
				st.past = nil
			}
		}
	} else {
		b := &biases[x.rng.IntN(len(biases))]
		names := x.rng.IntN(4)
		trashed := child.lose(l.v, Loss{
			Keep: func(n uint32) uint32 { return b.keep(x.rng, n) },
			Names: func(n int) int {
				if names == 0 {
					return n
				}
				return x.rng.IntN(n + 1)
			},
			Trash: x.trace.trash && x.rng.IntN(3) == 0,
		}, x.rng)
		c.how = "power loss, sectors: " + b.name
		if trashed {
			c.how += ", one of them trashed"
			x.stats.Trashed++
		}
		st.past, st.torn = nil, true
		x.stats.Power++
	}
	child.reseed(x.rng.Uint64())
	child.FailOdds = 0
	if x.trace.failOdds != 0 && x.rng.IntN(2) == 0 {
		child.FailOdds = x.trace.failOdds
	}
	x.chain = append(x.chain, c)
	x.crashed(child, st, l.depth+1)
	x.chain = x.chain[:len(x.chain)-1]
	x.put(child)
}

// crashed recovers a volume after a crash. Now and then the client continues after that.
func (x *worker) crashed(v *Volume, st State, depth int) {
	x.stats.States++
	if depth > 1 {
		x.stats.Nested++
	}
	x.images[v.hash()] = struct{}{}
	if depth < maxDepth && x.rng.IntN(16) == 0 {
		next := 0
		for _, p := range st.points {
			next = max(next, p.Next)
		}
		end := min(next+1+x.rng.IntN(8), len(x.trace.Ops))
		forks := 0
		if x.rng.IntN(2) == 0 {
			forks = forksOfClient
		}
		st.past = nil
		x.long(v, st, end, depth, forks)
		return
	}
	x.short(v, st, depth)
}
