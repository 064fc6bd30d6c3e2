package writer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	_ "github.com/mmapfilter/mmapfilter/layout/all"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
)

const descent = 77

// A source is a model of the filter that a replica follows: the filter's multiset at some positions.
type source struct {
	rng   *rand.Rand
	at    layout.Position
	items map[uint64]int64
	past  []moment
}

type moment struct {
	at    layout.Position
	items map[uint64]int64
}

func newSource(seed uint64) *source {
	s := &source{rng: rand.New(rand.NewPCG(seed, 1)), items: map[uint64]int64{}}
	s.past = []moment{{s.at, maps.Clone(s.items)}}
	return s
}

// goOn does random operations. Some inserts repeat a hash.
func (s *source) goOn(inserts, deletes int) moment {
	there := slices.Sorted(maps.Keys(s.items))
	for i := range inserts + deletes {
		if i%(inserts+deletes) >= inserts && len(there) > 0 {
			h := there[s.rng.IntN(len(there))]
			if s.items[h] > 0 {
				s.items[h]--
				s.at = s.at.After(layout.Delete, h)
			}
			continue
		}
		h := s.rng.Uint64()
		if s.rng.IntN(8) == 0 && len(there) > 0 {
			h = there[s.rng.IntN(len(there))]
		}
		s.items[h]++
		s.at = s.at.After(layout.Insert, h)
	}
	maps.DeleteFunc(s.items, func(_ uint64, n int64) bool { return n == 0 })
	m := moment{s.at, maps.Clone(s.items)}
	s.past = append(s.past, m)
	return m
}

// set returns the changes from one moment to another.
func set(t testing.TB, from, to moment, classes changes.Classes) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := changes.NewWriter(&b, changes.Header{Descent: descent, From: from.at, To: to.at, Classes: classes})
	must(t, err)
	all := maps.Clone(from.items)
	maps.Copy(all, to.items)
	for _, h := range slices.Sorted(maps.Keys(all)) {
		must(t, w.Add(changes.Change{Hash: h, Times: to.items[h] - from.items[h]}))
	}
	must(t, w.Close())
	return b.Bytes()
}

// replicaVolume returns a volume with an empty replica, which has room for about 30 keys a line. If kept
// is set, the replica keeps its hashes.
func replicaVolume(t testing.TB, lines uint64, sectorBytes int, kept bool) *crashsim.Volume {
	t.Helper()
	g, err := layout.NewGeometry(layout.Compact, layout.Params{Quotients: 38, RemainderBits: 13}, lines)
	must(t, err)
	return crashsim.NewVolume(g, 1, sectorBytes, kept, func(sb *layout.Superblock) {
		if kept {
			sb.SetSource(descent)
		} else {
			sb.SetReplica(descent, layout.Position{})
		}
	})
}

// bothReplicas runs a test for replicas that keep their hashes, and for replicas that do not.
func bothReplicas(t *testing.T, do func(t *testing.T, kept bool)) {
	t.Run("without hashes", func(t *testing.T) { do(t, false) })
	t.Run("with hashes", func(t *testing.T) { do(t, true) })
}

// followed returns the descent that a replica follows, and its durable position there.
func followed(w *writer.Writer) (d uint64, at layout.Position) {
	if d, at, ok := w.Source(); ok {
		return d, at
	}
	return w.Position()
}

func openReplica(t testing.TB, v recovery.Volume) *writer.Writer {
	t.Helper()
	w, _, err := writer.Open(v, writer.LogSize{First: wal.MinBytes, Most: 2 * wal.MinBytes})
	must(t, err)
	return w
}

// isAt checks that a replica has the position and the items of a moment, and no set that is unfinished.
func isAt(t testing.TB, w *writer.Writer, m moment) {
	t.Helper()
	k := w.Protocol().History()
	if w.Protocol().KeepsHashes() {
		k.At = k.Followed
	}
	if d, at := followed(w); d != descent || at != m.at || k.At != m.at || k.Set != 0 || k.LeftOut+k.Waiting != 0 {
		t.Fatalf("the replica is at %d, %+v, not at %+v: %+v", d, at, m.at, w.Protocol().History())
	}
	sum, classes := int64(0), map[layout.Class]int64{}
	for h, n := range m.items {
		sum, classes[w.Table().Class(w.Table().Split(h))] = sum+n, classes[w.Table().Class(w.Table().Split(h))]+n
	}
	if w.Len() != uint64(sum) {
		t.Fatalf("%d items, not %d", w.Len(), sum)
	}
	for h := range m.items {
		if want := classes[w.Table().Class(w.Table().Split(h))]; w.Count(h) != uint64(want) || !w.Contains(h) {
			t.Fatalf("%d items of %#x, not %d; found: %t", w.Count(h), h, want, w.Contains(h))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestApplyRefuses checks that a replica refuses wrong sets, stays as it is, and accepts the right set
// afterwards. Sums of huge numbers of items must not overflow.
func TestApplyRefuses(t *testing.T) { bothReplicas(t, applyRefuses) }

func applyRefuses(t *testing.T, kept bool) {
	ctx := context.Background()
	s := newSource(1)
	a := s.goOn(300, 0)
	b := s.goOn(200, 150)
	c := s.goOn(10, 100)
	w := openReplica(t, replicaVolume(t, 20, 512, kept))
	must(t, w.Apply(ctx, bytes.NewReader(set(t, s.past[0], a, changes.Classes{}))))
	must(t, w.Apply(ctx, bytes.NewReader(set(t, a, b, changes.Classes{}))))
	fork := func(m moment) moment { m.at.Chain++; return m }
	good := set(t, b, c, changes.Classes{})
	flipped := slices.Clone(good)
	flipped[len(flipped)-30] ^= 4
	full := b
	full.at.Number += 4096 // more than any of the sets has changes
	full.items = maps.Clone(b.items)
	for range 20*32 + layout.StashEntries {
		full.items[s.rng.Uint64()] = 1
	}
	strays := moment{at: layout.Position{Number: full.at.Number}, items: map[uint64]int64{}}
	wrong := moment{b.at, map[uint64]int64{s.rng.Uint64(): 1000}}
	for _, refused := range []struct {
		name string
		set  []byte
		err  error // nil if the replica has the changes already
	}{
		{"again", set(t, a, b, changes.Classes{}), nil},
		{"an older one", set(t, s.past[0], a, changes.Classes{}), nil},
		{"to here, from before", set(t, s.past[0], b, changes.Classes{}), nil},
		{"nothing", set(t, b, b, changes.Classes{}), nil},
		{"across", set(t, a, c, changes.Classes{}), writer.ErrChangesGap},
		{"a gap", set(t, c, s.goOn(5, 5), changes.Classes{}), writer.ErrChangesGap},
		{"another past", set(t, fork(b), c, changes.Classes{}), build.ErrOtherDescent},
		{"another past that ends here", set(t, a, fork(b), changes.Classes{}), build.ErrOtherDescent},
		{"other classes", set(t, b, c, changes.Classes{Lines: 19, Fingerprints: 38 << 13}), writer.ErrOtherClasses},
		{"a full filter", set(t, b, full, changes.Classes{}), writer.ErrFull},
		{"more deletes than items", set(t, wrong, strays, changes.Classes{}), layout.ErrCorrupt},
		{"damaged", flipped, layout.ErrCorrupt},
		{"not changes", []byte("not changes, but a text that is longer than the header of changes is, by some more bytes"), layout.ErrCorrupt},
		{"empty", nil, io.ErrUnexpectedEOF},
		{"cut off", good[:len(good)-5], io.ErrUnexpectedEOF},
		{"cut off, likewise", good[:len(good)-5], layout.ErrCorrupt},
	} {
		t.Run(refused.name, func(t *testing.T) {
			if err := w.Apply(ctx, bytes.NewReader(refused.set)); !errors.Is(err, refused.err) {
				t.Errorf("%v", err)
			}
			isAt(t, w, b)
		})
	}
	for _, times := range []int64{3, -3, 1 << 40, 1 << 62, math.MaxInt64, -1 << 62, -math.MaxInt64} {
		to := moment{layout.Position{Number: b.at.Number + 5}, map[uint64]int64{7: times, 8: times}}
		huge := set(t, moment{b.at, map[uint64]int64{}}, to, changes.Classes{})
		if err := w.Apply(ctx, bytes.NewReader(huge)); !errors.Is(err, changes.ErrDamaged) {
			t.Fatalf("%d items of each of two hashes in 5 operations: %v", times, err)
		}
		isAt(t, w, b)
	}
	broken := errors.New("the network broke")
	if err := w.Apply(ctx, io.MultiReader(bytes.NewReader(good[:100]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := w.Apply(cancelled, bytes.NewReader(good)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	isAt(t, w, b)
	if kept {
		byClass := set(t, b, c, changes.ClassesOf(w.Protocol().Geometry()))
		if err := w.Apply(ctx, bytes.NewReader(byClass)); err != writer.ErrOtherClasses {
			t.Errorf("changes by class, for a replica that keeps hashes: %v", err)
		}
	}
	must(t, w.Apply(ctx, bytes.NewReader(good)))
	isAt(t, w, c)
	other := crashsim.NewVolume(w.Protocol().Geometry(), 2, 512, false, func(sb *layout.Superblock) { sb.SetReplica(descent+1, b.at) })
	if err := openReplica(t, other).Apply(ctx, bytes.NewReader(good)); !errors.Is(err, build.ErrOtherDescent) || errors.Is(err, writer.ErrNotReplica) {
		t.Errorf("another filter: %v", err)
	}
	for _, keep := range []bool{false, true} {
		plain := openReplica(t, crashsim.NewVolume(w.Protocol().Geometry(), 2, 512, keep, nil))
		if err := plain.Apply(ctx, bytes.NewReader(good)); !errors.Is(err, writer.ErrNotReplica) || !errors.Is(err, build.ErrOtherDescent) {
			t.Errorf("no replica, keeps hashes %t: %v", keep, err)
		}
	}
}

// TestApplyIsCutOff cancels an Apply in many places. The filter may have some of the changes then. Until
// the set is finished, it must refuse operations of its own. It must finish the set when it resumes, is
// opened again, or gets changes again.
func TestApplyIsCutOff(t *testing.T) { bothReplicas(t, applyIsCutOff) }

func applyIsCutOff(t *testing.T, kept bool) {
	s := newSource(2)
	a, b, c := s.goOn(300, 0), s.goOn(20, 20), s.goOn(10, 10)
	for after := range 45 {
		v := replicaVolume(t, 20, 512, kept)
		w := openReplica(t, v)
		must(t, w.Apply(context.Background(), bytes.NewReader(set(t, s.past[0], a, changes.Classes{}))))
		in := set(t, a, b, changes.Classes{})
		ctx := &endsAfter{Context: context.Background(), left: after}
		err := w.Apply(ctx, bytes.NewReader(in))
		if err == nil {
			t.Fatalf("Apply was not cancelled after %d looks at the context", after)
		}
		if k := w.Protocol().History(); k.Set == 0 {
			isAt(t, w, a)
			continue
		} else if _, at := followed(w); at != a.at {
			t.Fatalf("after %d: at %+v, %+v", after, at, k)
		}
		if err := w.Depart(); err != writer.ErrApplying {
			t.Errorf("an operation meanwhile: %v", err)
		}
		switch after % 4 {
		case 0:
			must(t, w.Resume(context.Background()))
		case 1:
			must(t, w.Apply(context.Background(), bytes.NewReader(in)))
		case 2:
			must(t, w.Clean())
			w = openReplica(t, v)
			must(t, w.Resume(context.Background()))
		case 3:
			must(t, w.Apply(context.Background(), bytes.NewReader(set(t, b, c, changes.Classes{}))))
			isAt(t, w, c)
			continue
		}
		isAt(t, w, b)
	}
}

// endsAfter is a context that ends after left calls of Err.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestApplyFindsNoItem applies a set that deletes keys that are not in the filter. This means that the
// file does not have the items of its position.
func TestApplyFindsNoItem(t *testing.T) { bothReplicas(t, applyFindsNoItem) }

func applyFindsNoItem(t *testing.T, kept bool) {
	s := newSource(4)
	a := s.goOn(300, 0)
	w := openReplica(t, replicaVolume(t, 20, 512, kept))
	must(t, w.Apply(context.Background(), bytes.NewReader(set(t, s.past[0], a, changes.Classes{}))))
	other := moment{a.at, map[uint64]int64{s.rng.Uint64(): 1}}
	for range 2 {
		next := moment{s.goOn(1, 0).at, nil} // the one item is deleted
		err := w.Apply(context.Background(), bytes.NewReader(set(t, other, next, changes.Classes{})))
		if e := new(layout.CorruptError); !errors.As(err, &e) || e.Rule != "K9" {
			t.Error(err)
		}
	}
}

// TestDepart has a replica do an operation of its own. From then on, whatever happens, the file must
// have no position in the followed history and must refuse changes. Once it is opened again, it must not
// be a replica. If it keeps hashes and has applied changes, it must keep where it departed.
func TestDepart(t *testing.T) {
	bothReplicas(t, func(t *testing.T, kept bool) {
		departs(t, kept, true)
		departs(t, kept, false)
	})
}

func departs(t *testing.T, kept, changed bool) {
	s := newSource(5)
	a, b := s.goOn(300, 0), s.goOn(20, 20)
	for name, reopen := range map[string]func(w *writer.Writer, v *crashsim.Volume) *crashsim.Volume{
		"kill":       func(w *writer.Writer, v *crashsim.Volume) *crashsim.Volume { return v.AfterKill(s.rng) },
		"power loss": func(w *writer.Writer, v *crashsim.Volume) *crashsim.Volume { return v.AfterPowerLoss(s.rng) },
		"close":      func(w *writer.Writer, v *crashsim.Volume) *crashsim.Volume { must(t, w.Clean()); return v },
		"checkpoint, then kill": func(w *writer.Writer, v *crashsim.Volume) *crashsim.Volume {
			must(t, w.Checkpoint())
			return v.AfterKill(s.rng)
		},
		"seal": func(w *writer.Writer, v *crashsim.Volume) *crashsim.Volume {
			must(t, w.Seal(context.Background()))
			return v
		},
		"seal, and go on": func(w *writer.Writer, v *crashsim.Volume) *crashsim.Volume {
			must(t, w.Seal(context.Background()))
			must(t, w.Insert(3))
			must(t, w.Sync())
			return v.AfterPowerLoss(s.rng)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := replicaVolume(t, 20, 512, kept)
			w := openReplica(t, v)
			least := uint64(0)
			if changed {
				must(t, w.Apply(context.Background(), bytes.NewReader(set(t, s.past[0], a, changes.Classes{}))))
				least = a.at.Number
			}
			must(t, w.Depart())
			must(t, w.Insert(1))
			check := func(when string) {
				t.Helper()
				err := w.Apply(context.Background(), bytes.NewReader(set(t, a, b, changes.Classes{})))
				d, at := w.Position()
				if kept && d != descent && at.Number >= least {
					d, at = 0, layout.Position{} // this is the position in its own history
				}
				if _, _, follows := w.Source(); follows || d != 0 || at != (layout.Position{}) || err != writer.ErrNotReplica || w.Follows() {
					t.Errorf("%s: the file is at %d, %+v; Apply: %v", when, d, at, err)
				}
			}
			check("before")
			w = openReplica(t, reopen(w, v))
			check("after")
			var departed layout.Kept
			if kept && changed {
				departed = layout.Kept{Followed: layout.Position{Number: w.Superblock().AgesFrom()}, Set: layout.Departed}
			}
			k := w.Protocol().History()
			if sb := w.Superblock(); sb.IsReplica() || sb.KeepsHashes() != kept || sb.Follows() != (sb.AgesFrom() > 0) ||
				k.Set != departed.Set || k.Followed != departed.Followed || sb.Follows() != (kept && changed) {
				t.Errorf("the file is still a replica, or has a wrong departure: %+v", k)
			}
			must(t, w.Insert(2))
			check("afterwards")
		})
	}
}
