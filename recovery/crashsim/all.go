package crashsim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// An Exhaustive explores every trace of a few operations, with a crash at every event
// and every possible outcome of the crash.
type Exhaustive struct {
	System     System
	Operations int // length of the longest traces
	Nested     int // in traces of up to this length, recoveries crash at every event too; in longer ones, now and then
}

// With up to fewSectors dirty sectors, every subset of them is tried: each sector has what
// the disk had, or its newest content. With more dirty sectors, samples are tried, in which
// each sector has one of the contents that it had since it was last clean. There are fewer
// samples if the crash is in a recovery.
const (
	fewSectors    = 6
	samples       = 24
	nestedSamples = 4
)

// allShapes are the universes of the traces. Keys are numbered in the order in which a trace first
// uses them, since it makes no difference which key is first.
var allShapes = []shape{
	// Twins in one line.
	{lines: 1, free: 1000, addKeys: func(u *Universe, rng *rand.Rand) {
		it := randomItem(u.table, rng)
		for salt := range uint64(6) {
			u.addKey(it, salt)
		}
	}},
	// Twins whose home line is either of two lines that are nearly full.
	{lines: 2, free: 3, tidy: true, addKeys: func(u *Universe, rng *rand.Rand) {
		it := randomItem(u.table, rng)
		for u.table.Alternate(it) == it {
			it = randomItem(u.table, rng)
		}
		for salt := range uint64(3) {
			u.addKey(it, salt)
			u.addKey(u.table.Alternate(it), salt)
		}
	}},
	// Different keys in a line that is nearly full.
	{lines: 1, free: 1, present: 2, addKeys: func(u *Universe, rng *rand.Rand) {
		for range 4 {
			u.addKey(randomItem(u.table, rng), 0)
		}
	}},
	// A line for each key.
	{lines: 6, free: 1000, addKeys: func(u *Universe, rng *rand.Rand) {
		for line := range uint64(6) {
			it := randomItem(u.table, rng)
			it.Line = line
			u.addKey(it, 0)
		}
	}},
}

// Run explores all traces, or stops at the first violation.
func (e *Exhaustive) Run() (Stats, *Violation) {
	start := time.Now()
	var shards [][]*Trace
	for i, s := range allShapes {
		for _, turn := range e.turns(i) {
			u, err := newUniverse(&e.System, i, s.of(turn.kind), rand.New(rand.NewPCG(uint64(i), 0xA11)))
			if err != nil {
				return Stats{}, &Violation{Oracle: "O6", What: err.Error(), Trace: &Trace{Universe: new(Universe)}}
			}
			shards = append(shards, turn.traces(u, turn.sector)...)
		}
	}
	total, first := newWorkers(&e.System).run(len(shards), func(x *worker, i int) (v *Violation) {
		x.done, x.images = make(map[uint64]struct{}), make(map[uint64]struct{})
		for _, t := range shards[i] {
			if v = x.exhaust(e, t); v != nil {
				break
			}
		}
		x.stats.Images = uint64(len(x.images))
		return v
	})
	total.Elapsed = time.Since(start)
	return total, first
}

// A turn is a layout and a sector size for a shape.
type turn struct {
	Exhaustive
	kind   layout.Kind
	sector int
}

// turns returns the turns of a shape. For each sector size there are two: one with a layout whose
// lines share words; and one with Compact, with traces that are shorter by one operation, since
// the operations of Compact store the most words.
func (e *Exhaustive) turns(number int) (all []turn) {
	shorter := *e
	shorter.Operations--
	for sector := 1; sector < len(sectorSizes); sector++ {
		shared := []layout.Kind{layout.SemiSorted, layout.Packed}[(number+sector)%2]
		all = append(all, turn{*e, shared, sector}, turn{shorter, layout.Compact, sector})
	}
	return all
}

// of returns the shape for a layout.
func (s shape) of(kind layout.Kind) shape {
	const more = 4 // then at least one line that shares words spans two blocks of 64 bytes
	switch s.kind = kind; kind {
	case layout.Packed:
		s.params, s.lines = layout.Params{FingerprintBits: 31, BucketSize: 4}, s.lines+more
	case layout.SemiSorted:
		s.params, s.lines = layout.Params{FingerprintBits: 32, BucketSize: 4}, s.lines+more
	case layout.Compact:
		s.params = layout.Params{Quotients: 25, RemainderBits: 26}
	}
	return s
}

// traces returns the traces on a universe, grouped by their first operations.
func (e *Exhaustive) traces(u *Universe, sector int) (shards [][]*Trace) {
	var ops []Op
	var grow func(counts Counts, used int)
	grow = func(counts Counts, used int) {
		if len(ops) > 0 {
			if len(ops) <= 2 {
				shards = append(shards, nil)
			}
			s := &shards[len(shards)-1]
			*s = append(*s, &Trace{Universe: u, Ops: append([]Op(nil), ops...), sector: sector})
		}
		if len(ops) == e.Operations {
			return
		}
		with := func(op Op, used int) {
			counts := counts
			switch op.Kind {
			case Insert:
				counts[op.Key]++
			case Delete:
				counts[op.Key]--
			}
			ops = append(ops, op)
			grow(counts, used)
			ops = ops[:len(ops)-1]
		}
		for k := range min(used+1, len(u.keys)) {
			with(Op{Insert, k}, max(used, k+1))
		}
		for k := range u.keys {
			if counts[k] > 0 && (k <= used || u.start.Counts[k] > 0) {
				with(Op{Delete, k}, max(used, min(k+1, used+1)))
			}
		}
		if len(ops) == 0 {
			return // nothing to sync
		}
		if last := ops[len(ops)-1].Kind; last != Checkpoint {
			with(Op{Kind: Checkpoint}, used)
			if last != Sync && last != BeginCheckpoint {
				with(Op{Kind: Sync}, used)
			}
			if len(ops) == 1 { // later operations go to the other half of the log
				with(Op{Kind: BeginCheckpoint}, used)
			}
		}
	}
	grow(u.start.Counts, 0)
	return shards
}

// exhaust crashes at every event of the last operation of a trace. Earlier operations are
// the last operations of shorter traces.
func (x *worker) exhaust(e *Exhaustive, t *Trace) *Violation {
	// The devices of all traces have the same seed, so that equal operations lead to equal files.
	return x.begin(t, x.stats.Traces, 0xA11, 1, func(v *Volume, st State) { x.exhaustFrom(e, v, st) })
}

func (x *worker) exhaustFrom(e *Exhaustive, v *Volume, st State) {
	l := &life{x: x, v: v, st: st}
	l.recoverFork = func(f *fork) {
		expected := uint64(0)
		for i := range f.st.points {
			expected = mix(expected ^ f.st.points[i].hash())
		}
		x.forkAll(f, expected, e)
	}
	l.begin(true)
	v.hook = func(ev Event) {
		v.next = v.events + 1
		if ev != StoreSame && l.op == len(x.trace.Ops)-1 {
			f := l.forkAt(ev)
			f.v = x.get()
			f.v.copyFrom(v)
			l.forks = append(l.forks, f)
		}
	}
	v.next = 1
	l.live(len(x.trace.Ops))
	v.hook, v.watch = nil, nil
}

func (p *Point) hash() uint64 {
	h := mix(p.LSN) ^ mix(p.Kept.At.Chain^p.Kept.LeftOut) ^ mix(p.UserSeq+1) ^ mix(p.OpMin+2) ^ mix(p.OpMax+3) ^ mix(p.Length+4)
	for i, w := range p.Image {
		if w != 0 {
			h += mix(w ^ uint64(i)*0x9E3779B97F4A7C15)
		}
	}
	for i, c := range p.Counts {
		h += mix(uint64(c) ^ uint64(p.Meant[i])<<8 ^ uint64(i)<<32)
	}
	return h
}

// forkAll crashes the volume of a fork with every possible outcome.
func (x *worker) forkAll(f *fork, expected uint64, e *Exhaustive) {
	v, st := f.v, f.st
	expected = mix(expected ^ st.floor)
	for i, n := range st.must {
		expected += mix(uint64(n) ^ uint64(i)<<32)
	}
	child := x.get()
	recovered := func(how func() string) {
		if image := child.hash(); !x.before(image, expected) {
			c := f.crash
			c.how = how()
			x.try(child, st, image, expected, e, c)
		}
	}
	child.kill(v)
	recovered(func() string { return "kill" })

	st.torn = true
	dirty := len(v.filter.dirty)
	for _, g := range v.logs {
		dirty += len(g.dirty)
		if g.size != g.durableSize {
			dirty++
		}
	}
	for names := range len(v.dir.unsynced) + 1 {
		loss := Loss{Names: func(int) int { return names }}
		if dirty <= fewSectors {
			for mask := range uint32(1) << dirty {
				bit := 0
				loss.Keep = func(n uint32) uint32 {
					bit++
					return n * (mask >> (bit - 1) & 1)
				}
				child.lose(v, loss, nil)
				recovered(func() string { return fmt.Sprintf("power loss, dirty sectors that are new: %b", mask) })
			}
			continue
		}
		n := samples
		if f.crash.depth > 0 {
			n = nestedSamples
		}
		for range n {
			b := &biases[x.rng.IntN(len(biases))]
			loss.Keep = func(n uint32) uint32 { return b.keep(x.rng, n) }
			child.lose(v, loss, nil)
			recovered(func() string { return "power loss, sectors: " + b.name })
		}
	}
	x.put(child)
}

// before reports whether an equal volume with the same expectations has been recovered before.
// If not, it records that this image has been recovered.
func (x *worker) before(image, expected uint64) bool {
	if _, ok := x.done[image+expected]; ok {
		x.stats.Skipped++
		return true
	}
	x.done[image+expected] = struct{}{}
	return false
}

// try recovers a crashed volume.
func (x *worker) try(v *Volume, st State, image, expected uint64, e *Exhaustive, c crash) {
	x.chain = append(x.chain, c)
	x.images[image] = struct{}{}
	x.stats.States++
	if st.torn {
		x.stats.Power++
	}
	v.reseed(image)
	depth := len(x.chain)
	if depth > 1 {
		x.stats.Nested++
	}
	l := &life{x: x, v: v, st: st, depth: depth, recoverFork: x.crashed}
	l.begin(false)
	switch {
	case depth == 1 && len(x.trace.Ops) <= e.Nested:
		v.hook = func(ev Event) {
			v.next = v.events + 1
			if ev != StoreSame {
				f := l.forkAt(ev)
				x.forkAll(&f, expected, e)
			}
		}
		v.next = 1
	case depth < maxDepth && x.rng.IntN(16) == 0:
		x.aim(v)
		v.hook = func(e Event) { x.fork(l, e) }
	}
	l.open(false)
	v.hook, v.watch = nil, nil
	l.recoverForks()
	x.chain = x.chain[:len(x.chain)-1]
}
