package build

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// TestWindow checks that an item is removed by the first cut that is certainly a window or more after
// its insert, and that this cut comes at most a step later.
func TestWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		w := Window{Length: 10*hashes.TimeStep + rng.Uint64N(1<<rng.UintN(58)), Now: 1 << 60}
		step, cut := w.Step(), w.Cut()
		if age := w.Now - cut; age < w.Length || age >= w.Length+step {
			t.Fatalf("%+v: what is %d old has left", w, age)
		}
		before := Expired(cut).Tail
		inForce := w.Now - rng.Uint64N(2*min(w.Length, w.Now/2))
		if end := w.end(inForce); end%step != 0 || end < inForce+hashes.TimeStep || end > max(inForce+hashes.TimeStep+step, cut) {
			t.Fatalf("%+v: an item of %d leaves with %d", w, inForce, end)
		} else if gone := before(inForce) == 0; gone != (end == cut) {
			t.Fatalf("%+v: an item of %d leaves with %d, has left: %t", w, inForce, end, gone)
		}
	}
	for _, w := range []Window{{}, {Now: 1 << 60}, {Length: 1 << 60, Now: 1 << 50}, {Length: 1<<64 - 1, Now: 1 << 60}} {
		if cut := w.Cut(); cut != 0 {
			t.Errorf("%+v: what is older than %d has left", w, cut)
		}
	}
}

// TestJoinByTime joins ages of a filter whose items expire by themselves. There must be no more ages
// than a base can have. Exactly the items of the same age must expire together. A time in the future
// must become about the time of the rebuild.
func TestJoinByTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		w := Window{Length: 1 + rng.Uint64N(1<<rng.UintN(56)), Now: 1 << 60}
		var past history
		m := &Merged{inputs: make([]input, 1)}
		var times []uint64
		for range 300 {
			time := w.Now + w.Length - rng.Uint64N(4*w.Length)
			past.add(time, 1+rng.Uint64N(1000), w)
			times = append(times, time)
		}
		for i := range uint64(20) { // ages of the base before
			last := w.Now - rng.Uint64N(2*w.Length)
			m.inputs[0].Header.Ages = append(m.inputs[0].Header.Ages, hashes.Age{First: last - i, Last: last, Items: 1})
		}
		ages := m.joinAges(past, w)
		if len(m.ages) > 45 {
			t.Fatalf("%+v: %d ages", w, len(m.ages))
		}
		for i := range m.ages[1:] {
			if w.end(m.ages[i].Last) >= w.end(m.ages[i+1].Last) {
				t.Fatalf("%+v: the items of %+v and %+v leave together", w, m.ages[i], m.ages[i+1])
			}
		}
		check := func(first, last uint64, age hashes.Age) {
			if first < age.First || last > age.Last || w.end(last) != w.end(age.Last) {
				t.Fatalf("%+v: an item of %d to %d has the age %+v", w, first, last, age)
			}
		}
		for _, time := range times {
			check(time, time, m.ages[ages.Tail(time)])
		}
		for _, a := range m.inputs[0].Header.Ages {
			check(a.First, a.Last, m.ages[ages.Base(a)])
		}
		ahead := w.Now + w.Step()/2
		if w.Ahead(ahead) || !w.Ahead(ahead+1) || w.believed(ahead) != ahead || w.believed(ahead+1) != ahead || w.believed(w.Now+w.Length) > ahead {
			t.Fatalf("%+v: what is after %d is not of the future", w, ahead)
		}
	}
}
