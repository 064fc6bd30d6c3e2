package crashsim

import (
	"fmt"
	"math/rand/v2"
)

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

// randomLoss returns a power loss, and how it is distributed.
func randomLoss(rng *rand.Rand) (loss Loss, bias string) {
	b, names := &biases[rng.IntN(len(biases))], rng.IntN(4)
	return Loss{
		Keep: func(n uint32) uint32 { return b.keep(rng, n) },
		Names: func(n int) int {
			if names == 0 {
				return n
			}
			return rng.IntN(n + 1)
		},
	}, b.name
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
	} else {
		loss, bias := randomLoss(x.rng)
		loss.Trash = x.trace.trash && x.rng.IntN(3) == 0
		trashed := child.lose(l.v, loss, x.rng)
		c.how = "power loss, sectors: " + bias
		if trashed {
			c.how += ", one of them trashed"
			x.stats.Trashed++
		}
		st.torn = true
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
		x.long(v, st, end, depth, forks)
		return
	}
	x.short(v, st, depth)
}

// long lives a life with operations: first a rehearsal, then the same with forks.
func (x *worker) long(v *Volume, st State, end, depth, forks int) {
	rv := x.get()
	rv.copyFrom(v)
	rv.keep = true
	rehearsal := &life{x: x, v: rv, st: st, depth: depth}
	rehearsal.begin(x.trace.readers)
	c := newCopier(rehearsal)
	rehearsal.live(end)
	rv.watch, rv.each = nil, nil
	c.check()
	if forks > 0 {
		x.again(v, st, rehearsal, end, depth, forks)
	}
	x.put(rv)
}

// again repeats the life of a rehearsal, with forks.
func (x *worker) again(v *Volume, st State, rehearsal *life, end, depth, forks int) {
	kinds := rehearsal.v.kinds
	total := 0.0
	for _, k := range kinds {
		total += weights[k]
	}
	scale := float64(forks) / total
	at := 0 // number of the last event chosen
	choose := func() int {
		for ; at < len(kinds); at++ {
			if x.rng.Float64() < weights[kinds[at]]*scale {
				at++
				return at
			}
		}
		return -1
	}
	l := &life{x: x, v: v, st: st, depth: depth, rehearsal: rehearsal}
	l.begin(false)
	v.hook = func(e Event) {
		x.fork(l, e)
		if e == SyncBegins {
			x.fork(l, e)
		}
		v.next = choose()
	}
	v.next = choose()
	l.live(end)
	if v.events != len(kinds) {
		panic(fmt.Sprintf("crashsim: %d events, %d in the rehearsal of %s", v.events, len(kinds), x.trace))
	}
	v.hook = nil
	if l.dead {
		for range forksOfDead {
			x.fork(l, SyncEnds)
		}
	}
}

// short lives a life that only recovers. It may be forked once.
func (x *worker) short(v *Volume, st State, depth int) {
	l := &life{x: x, v: v, st: st, depth: depth}
	l.begin(x.trace.readers && x.rng.IntN(3) == 0)
	odds := 3
	if v.hasLost() || !v.named() { // a recovery must not rely on the content or the names in the cache
		odds = 1
	}
	if depth < maxDepth && x.rng.IntN(odds) == 0 {
		x.aim(v)
		v.hook = func(e Event) { x.fork(l, e) }
	}
	l.open(false)
	v.hook, v.watch = nil, nil
}

// aim chooses an event of a recovery to crash after.
func (x *worker) aim(v *Volume) {
	e, n := SyncBegins, 8
	kinds := 20
	if !v.named() {
		kinds = 40
	}
	switch x.rng.IntN(kinds) {
	case 0, 1:
		e, n = SyncEnds, 8
	case 2, 3, 4, 5, 6, 7:
		e, n = StoreVisible, 24
	case 8, 9:
		e, n = StoreLog, 60
	case 10, 11:
		e, n = StoreHead, 60
	case 12, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29:
		e, n = NameChanges, 2
	}
	v.left[e] = 1 + x.rng.IntN(n)
}

// maxDepth is the largest number of crashes in a row: one in a writer and three in
// recoveries.
const maxDepth = 4

// weights are the relative odds of a crash after each kind of event.
var weights = [eventKinds]float64{
	StoreHead: 0.02, StoreLog: 0.15, StoreVisible: 0.4, SyncBegins: 1, SyncEnds: 0.5, NameChanges: 1.5,
}

// About how often a life is forked: the life of a whole trace; that of a client that continues
// after a crash; and, after its last operation, a life whose sync has failed.
const (
	forksOfTrace  = 60
	forksOfClient = 12
	forksOfDead   = 6
)
