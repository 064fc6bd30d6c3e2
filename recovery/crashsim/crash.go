package crashsim

import "math/rand/v2"

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

// randomLoss returns a power loss, and the name of its bias.
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

// A fork is a copy of the volume of a life, made at an event. It is recovered once the operation has
// returned, because the state to which the whole operation leads is known only then.
type fork struct {
	v      *Volume
	st     State
	opened bool // see life
	crash  crash
}

// forkAt returns the fork of a life at an event, with the volume of the life itself.
func (l *life) forkAt(e Event) fork {
	c := crash{depth: l.depth, op: l.op, event: l.v.events, kind: e}
	if !l.opened {
		c.op = -1
	}
	return fork{l.v, l.state(), l.opened, c}
}

// recoverForks recovers the forks of a life. None of its operations may be under way.
func (l *life) recoverForks() {
	forks := l.forks
	l.forks = nil
	for i := range forks {
		f := &forks[i]
		if f.opened {
			f.st.points = l.points
		}
		l.recoverFork(f)
		l.x.put(f.v)
	}
}

// fork crashes a copy of the volume of a life.
func (x *worker) fork(l *life, e Event) {
	f, child := l.forkAt(e), x.get()
	f.v = child
	if x.rng.IntN(10) < 3 {
		child.kill(l.v)
		f.crash.how = "kill"
	} else {
		loss, bias := randomLoss(x.rng)
		loss.Trash = x.trace.trash && x.rng.IntN(3) == 0
		f.crash.how = "power loss, sectors: " + bias
		if child.lose(l.v, loss, x.rng) {
			f.crash.how += ", one of them trashed"
			x.stats.Trashed++
		}
		f.st.torn = true
		x.stats.Power++
	}
	child.reseed(x.rng.Uint64())
	child.FailOdds = 0
	if x.trace.failOdds != 0 && x.rng.IntN(2) == 0 {
		child.FailOdds = x.trace.failOdds
	}
	l.forks = append(l.forks, f)
}

// crashed recovers a fork. Now and then the client continues after that.
func (x *worker) crashed(f *fork) {
	x.chain = append(x.chain, f.crash)
	depth := len(x.chain)
	x.stats.States++
	if depth > 1 {
		x.stats.Nested++
	}
	x.images[f.v.hash()] = struct{}{}
	if depth < maxDepth && x.rng.IntN(16) == 0 {
		x.long(f.v, f.st, depth, []float64{0, oftenOfClient}[x.rng.IntN(2)])
	} else {
		x.short(f.v, f.st, depth)
	}
	x.chain = x.chain[:len(x.chain)-1]
}

// long lives a life with the rest of the operations. Once the filter is open, the life is forked after
// an event of weight 1 with probability often.
func (x *worker) long(v *Volume, st State, depth int, often float64) {
	l := &life{x: x, v: v, st: st, depth: depth, recoverFork: x.crashed}
	l.begin(x.trace.readers)
	c := newCopier(l)
	if often > 0 {
		after := func() int { return v.events + 1 + int(x.rng.ExpFloat64()/(often*mostWeight)) }
		v.next = after()
		v.hook = func(e Event) {
			if l.opened && x.rng.Float64() < weights[e]/mostWeight {
				x.fork(l, e)
				if e == SyncBegins {
					x.fork(l, e)
				}
			}
			v.next = after()
		}
	}
	l.live(len(x.trace.Ops))
	v.watch, v.each, v.hook = nil, nil, nil
	c.check()
	if l.dead && often > 0 {
		for range forksOfDead {
			x.fork(l, SyncEnds)
		}
		l.recoverForks()
	}
}

// short lives a life that only recovers. It may be forked once.
func (x *worker) short(v *Volume, st State, depth int) {
	l := &life{x: x, v: v, st: st, depth: depth, recoverFork: x.crashed}
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
	l.recoverForks()
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
	StoreHead: 0.02, StoreLog: 0.15, StoreVisible: 0.4, SyncBegins: 1, SyncEnds: 0.5, NameChanges: mostWeight,
}

const mostWeight = 1.5

// oftenOfTrace is for the life of a whole trace, and oftenOfClient for the life of a client that
// continues after a crash: see long. forksOfDead is how often a life whose sync has failed is forked
// after its last operation.
const (
	oftenOfTrace  = 0.8
	oftenOfClient = 0.1
	forksOfDead   = 6
)
