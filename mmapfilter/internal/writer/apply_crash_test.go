package writer_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
)

// An applyCrash crashes a replica while it applies a set, and while it recovers from such a crash.
type applyCrash struct {
	testing.TB
	rng       *rand.Rand
	a, b, c   moment // the set ab leads from a to b, and bc from b to c
	ab, bc    []byte
	crashes   int
	unapplied int // crashes after which the file has nothing of the set
	resumed   int // crashes after which the file has a part of the set
}

// at calls do, crashes a volume at some of its events, and checks what is left each time.
func (r *applyCrash) at(v *crashsim.Volume, odds int, depth int, do func()) {
	v.Watch(func(e crashsim.Event) {
		if e != crashsim.StoreSame && r.rng.IntN(odds) == 0 {
			r.crash(v, depth, false)
		}
	})
	do()
	v.Watch(nil)
}

// crash loses the power or kills the process, opens the file again, and checks it. applied says that
// Apply has returned. Then the file must have all of the set.
func (r *applyCrash) crash(v *crashsim.Volume, depth int, applied bool) {
	r.Helper()
	left := v.AfterPowerLoss
	if r.rng.IntN(3) == 0 {
		left = v.AfterKill
	}
	after := left(r.rng)
	r.crashes++
	var w *writer.Writer
	open := func() {
		var err error
		if w, _, err = writer.Open(after, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes}); err != nil {
			r.Fatal(err)
		}
		if w.Protocol().History().Set != 0 {
			r.resumed++
		}
		must(r, w.Resume(context.Background()))
	}
	if depth < 2 {
		r.at(after, 1200, depth+1, open)
	} else {
		open()
	}
	if _, at := followed(w); at == r.a.at && !applied {
		r.unapplied++
		isAt(r, w, r.a)
	} else {
		isAt(r, w, r.b)
	}
	must(r, w.Apply(context.Background(), bytes.NewReader(r.ab)))
	isAt(r, w, r.b)
	must(r, w.Apply(context.Background(), bytes.NewReader(r.bc)))
	isAt(r, w, r.c)
}

// TestApplyCrashes covers K9: whenever the process is killed or the power fails, even while a set that
// was begun is being finished, each change of the set is made once, or none is made.
func TestApplyCrashes(t *testing.T) { bothReplicas(t, applyCrashes) }

func applyCrashes(t *testing.T, kept bool) {
	traces := uint64(10)
	if testing.Short() {
		traces = 4
	}
	all := applyCrash{}
	for seed := range traces {
		s := newSource(seed)
		r := &applyCrash{TB: t, rng: rand.New(rand.NewPCG(seed, 2)), a: s.goOn(100, 0), b: s.goOn(1+s.rng.IntN(60), s.rng.IntN(60)), c: s.goOn(10, 10)}
		r.ab, r.bc = set(t, r.a, r.b, changes.Classes{}), set(t, r.b, r.c, changes.Classes{})
		v := replicaVolume(t, 8, 8<<(3*r.rng.IntN(4)), kept)
		w := openReplica(t, v)
		must(t, w.Apply(context.Background(), bytes.NewReader(set(t, s.past[0], r.a, changes.Classes{}))))
		if r.rng.IntN(2) == 0 {
			must(t, w.Clean())
			w = openReplica(t, v)
		}
		r.at(v, 60, 0, func() { must(t, w.Apply(context.Background(), bytes.NewReader(r.ab))) })
		for range 10 {
			r.crash(v, 1, true)
		}
		all.crashes, all.unapplied, all.resumed = all.crashes+r.crashes, all.unapplied+r.unapplied, all.resumed+r.resumed
	}
	t.Logf("%d crashes: %d before the set, %d within it", all.crashes, all.unapplied, all.resumed)
	if min(all.crashes, all.unapplied, all.resumed) == 0 {
		t.Error("not all cases occurred")
	}
}
