package main

import "math/rand/v2"

// zipfExponent makes the turnover "zipf" uneven: a few keys are replaced all the time, most
// never.
const zipfExponent = 1.1

// A life is a table and the keys in it.
type life struct {
	*setting
	table      *table
	keys       []spot // a ring, for the kind "oldest"
	next       int
	rng        *rand.Rand
	zipf       *rand.Zipf
	operations int // since the table was filled
	moved      int // moves until the table was filled
}

func newLife(s *setting) *life {
	l := &life{setting: s, table: newTable(s), rng: rand.New(rand.NewPCG(s.seed, 1))}
	l.keys = make([]spot, int(s.load*float64(l.table.slots*s.lines)))
	l.zipf = rand.NewZipf(l.rng, zipfExponent, 1, uint64(len(l.keys)-1))
	return l
}

func (l *life) insert() spot {
	home := spot{l.rng.IntN(l.lines), item{uint32(l.rng.Uint64() >> (64 - l.f)), false}}
	l.table.insert(home)
	return home
}

func (l *life) fill() {
	for i := range l.keys {
		l.keys[i] = l.insert()
	}
	if l.idea == "sweeps" {
		l.table.sweep()
	}
	l.moved = l.table.moved
}

// turnover replaces as many keys as there are.
func (l *life) turnover() {
	for n := range l.keys {
		i := l.next
		switch l.kind {
		case "oldest":
			l.next = (l.next + 1) % len(l.keys)
		case "random":
			i = l.rng.IntN(len(l.keys))
		case "zipf":
			i = int(l.zipf.Uint64())
		}
		l.table.remove(l.keys[i])
		l.keys[i] = l.insert()
		if l.idea == "sweeps" && l.swept(n+1) > l.swept(n) {
			l.table.sweep()
		}
	}
	l.operations += 2 * len(l.keys)
}

// swept returns how many sweeps are due after n keys of a turnover. The end of a turnover, when
// the bits are looked at, is halfway between two sweeps.
func (l *life) swept(n int) int { return (2*n*l.sweeps + len(l.keys)) / (2 * len(l.keys)) }

func (l *life) moves() float64 {
	return float64(l.table.moved-l.moved) / float64(l.operations)
}
