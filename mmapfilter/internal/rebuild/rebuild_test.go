package rebuild

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
	"pgregory.net/rapid"
)

var shape = tabletest.Compact(41, 7)

const seed = 1 // that of a tabletest.Volume

// A run is a Job for a filter in a file, and what has come of it.
type run struct {
	*testing.T
	job  Job
	next *writer.Work
	did  []string
}

// newRun makes a filter with the keys of the numbers below 100, whose successor is to be larger.
func newRun(t *testing.T) *run { return newRunOf(t, tabletest.Shape.Create) }

func newRunOf(t *testing.T, create func(tabletest.Shape, rapid.TB, string, uint64)) *run {
	r := &run{T: t}
	path := filepath.Join(t.TempDir(), "f.mmf")
	create(shape, t, path, 20)
	old, err := openWork(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.using().Retire() })
	r.job = Job{
		Old: old,
		Config: build.Config{
			Seed: seed, Workers: 1, MemoryBudget: 1 << 20, Capacity: 1000,
			Progress: func(string, uint64, uint64) {}, Plan: plan,
		},
		Keys: func() (iter.Seq2[[]byte, error], error) { return tabletest.Numbers(0, 100), nil },
		Open: func(path string) (_ *writer.Work, err error) {
			r.next, err = openWork(path)
			return r.next, err
		},
		Use: func(w *writer.Writer) {
			r.did = append(r.did, map[bool]string{true: "use the old one", false: "use the new one"}[w == old.Writer])
		},
	}
	for number := range uint64(100) {
		r.insert(number)
	}
	return r
}

// using returns what is in use.
func (r *run) using() *writer.Work {
	if len(r.did) == 0 || r.did[len(r.did)-1] == "use the old one" {
		return r.job.Old
	}
	return r.next
}

func openWork(path string) (*writer.Work, error) {
	files, err := osfile.OpenFiles(path)
	if err != nil {
		return nil, err
	}
	w, _, err := writer.Open(files, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes})
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	k := writer.NewWork(files, w, -1)
	w.Work = k
	return k, nil
}

func plan(capacity uint64) (p build.Plan, err error) {
	p.Geometry, err = layout.NewGeometry(shape.Kind, shape.Params, capacity/shape.Slots()*2)
	p.Limit = 1 << 63
	p.Superblock.SetGeneration(1)
	p.Superblock.SetGeometry(p.Geometry)
	p.Superblock.SetSeed(seed)
	p.Superblock.SetCapacity(capacity)
	p.Superblock.SetTargetRate(0.01)
	p.Superblock.SetDesignLoad(0.5)
	return p, err
}

func hashOf(number uint64) uint64 {
	h := layout.NewHasher(seed)
	return h.Hash(binary.LittleEndian.AppendUint64(nil, number))
}

// insert inserts the key of a number into what is in use.
func (r *run) insert(number uint64) {
	r.Helper()
	if err := r.using().Writer.Insert(hashOf(number)); err != nil {
		r.Fatal(err)
	}
}

// has checks that what is in use has the keys of the numbers from from up to to.
func (r *run) has(from, to uint64) {
	r.Helper()
	for number := from; number < to; number++ {
		if !r.using().Writer.Contains(hashOf(number)) {
			r.Fatalf("key %d is lost", number)
		}
	}
}

// leavesNothing checks that the file in use is at its path, and no other is left.
func (r *run) leavesNothing() {
	r.Helper()
	path := r.job.Old.Files.Path()
	if err := r.using().Files.Named(); err != nil {
		r.Error(err)
	}
	if left, _ := filepath.Glob(path + "*"); !slices.Equal(left, []string{path, path + ".stash"}) {
		r.Errorf("left %v", left)
	}
}

// TestRun covers C8 and K3: the new file has what the old one had when the tap began, and what was done
// since; it has the name; and the old writer does nothing any more.
func TestRun(t *testing.T) {
	r := newRun(t)
	r.job.Hashes = func() []uint64 { return []uint64{hashOf(100), hashOf(101)} } // there when the tap begins
	before := r.job.Keys
	r.job.Keys = func() (iter.Seq2[[]byte, error], error) {
		keys, err := before()
		return func(yield func([]byte, error) bool) {
			next := uint64(102)
			for key, err := range keys {
				r.insert(next) // meanwhile
				if next++; !yield(key, err) {
					return
				}
			}
			if done, err := r.job.Old.Writer.Delete(hashOf(7)); !done || err != nil {
				r.Error(done, err)
			}
			for range slowEvery * replayAtOnce / 2 { // so many that operations have to wait
				r.insert(500)
				if done, err := r.job.Old.Writer.Delete(hashOf(500)); !done || err != nil {
					r.Fatal(done, err)
				}
			}
			if added, err := r.job.Old.Writer.InsertUnique(hashOf(400)); added || err != nil {
				r.Error(added, err)
			}
		}, err
	}
	r.insert(100)
	r.insert(101)
	r.insert(400) // the keys lack it, so the old file says that it is there, and the new one does not
	swapped, err := Run(context.Background(), r.job)
	if !swapped || err != nil {
		t.Fatal(swapped, err)
	}
	if want := []string{"use the new one"}; !slices.Equal(r.did, want) {
		t.Errorf("did %q", r.did)
	}
	if n := r.next.Writer.Len(); n != 202 {
		t.Errorf("%d items", n)
	}
	r.has(0, 7)
	r.has(8, 202)
	r.has(400, 401)
	r.leavesNothing()
	if err := r.job.Old.Writer.Insert(1); err != writer.ErrMoved {
		t.Errorf("the old writer: %v", err)
	}
	r.insert(300)
	r.has(300, 301)
}

// TestReplayFindsNoRoom covers K3: an operation that comes meanwhile may find no room in the new file.
// It is not left out there, though no position tells, where the keys come from the caller: the old file
// goes on. If only the log has no room, it makes some.
func TestReplayFindsNoRoom(t *testing.T) {
	for _, limit := range []uint64{1 << 40, 899} {
		r := newRun(t)
		r.job.Keys = func() (iter.Seq2[[]byte, error], error) {
			return func(yield func([]byte, error) bool) {
				for number := uint64(100); number < 900; number++ { // meanwhile
					r.insert(number)
				}
				for key, err := range tabletest.Numbers(0, 100) {
					if !yield(key, err) {
						return
					}
				}
			}, nil
		}
		open := r.job.Open
		r.job.Open = func(path string) (*writer.Work, error) {
			work, err := open(path)
			for room := true; room && err == nil; {
				err = work.Writer.SyncAt(func(uint64) uint64 { return 1 })
				size, used := work.Writer.Protocol().LogUse()
				room = used < size*3/4
			}
			work.Writer.Limit = limit
			return work, err
		}
		swapped, err := Run(context.Background(), r.job)
		if full := limit < 900; swapped == full || errors.Is(err, writer.ErrFull) != full || !full && err != nil {
			t.Fatalf("room for %d items: %t, %v", limit, swapped, err)
		}
		if n := r.using().Writer.Len(); n != 900 {
			t.Errorf("room for %d items: %d items", limit, n)
		}
		r.has(0, 900)
	}
}

// TestRunKept covers K7: from the kept hashes, the new file gets what the history means: the item that
// a stray delete has taken, one for a key that leant on another one, and none for one whose delete
// waits. Its history goes on where that of the old file is.
func TestRunKept(t *testing.T) {
	r := newRunOf(t, tabletest.Shape.CreateKeeping)
	r.job.Keys, r.job.Config.Keep, r.job.Config.Identity, r.job.Config.Capacity = nil, true, 2, 0
	var planned uint64
	r.job.Config.Plan = func(capacity uint64) (build.Plan, error) {
		planned = capacity
		p, err := plan(1000)
		p.Superblock.SetKeepsHashes(false)
		return p, err
	}
	w := r.job.Old.Writer
	unique := func(hash uint64) {
		t.Helper()
		if added, err := w.InsertUnique(hash); added || err != nil {
			t.Fatal(added, err)
		}
	}
	remove := func(hash uint64) {
		t.Helper()
		if done, err := w.Delete(hash); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	remove(hashOf(6) ^ 1)
	unique(hashOf(5) ^ 1)
	remove(hashOf(5))
	remove(hashOf(7))
	open := r.job.Open
	r.job.Open = func(path string) (*writer.Work, error) {
		unique(hashOf(8)) // meanwhile
		remove(hashOf(8))
		return open(path)
	}
	if swapped, err := Run(context.Background(), r.job); !swapped || err != nil {
		t.Fatal(swapped, err)
	}
	next, old := r.next.Writer, w.State().History
	if got, want := next.State().History, (layout.Kept{At: old.At, LeftOut: 1, Waiting: 1}); got != want {
		t.Errorf("the history is at %+v, not %+v", got, want)
	}
	if planned != 99 || next.Len() != 99 { // with 5^1 and 8, whose item the next rebuild takes
		t.Errorf("planned for %d items; there are %d", planned, next.Len())
	}
	r.has(0, 7)
	if next.Contains(hashOf(7)) || !next.Contains(hashOf(5)^1) {
		t.Error("a delete was not done, or the key that leant is lost")
	}
}

// TestRunFails: a job that fails or is cancelled leaves everything as it was. Without keys from the
// caller, a filter that keeps no hashes cannot be rebuilt (K2).
func TestRunFails(t *testing.T) {
	failed := errors.New("it fails")
	for name, fail := range map[string]func(r *run, cancel func(error)){
		"the plan": func(r *run, cancel func(error)) {
			r.job.Config.Plan = func(uint64) (build.Plan, error) { return build.Plan{}, failed }
		},
		"the keys": func(r *run, cancel func(error)) {
			r.job.Keys = func() (iter.Seq2[[]byte, error], error) { return nil, failed }
		},
		"one of the keys": func(r *run, cancel func(error)) {
			r.job.Keys = func() (iter.Seq2[[]byte, error], error) {
				return func(yield func([]byte, error) bool) { yield(nil, failed) }, nil
			}
		},
		"no keys, and no hashes": func(r *run, cancel func(error)) { r.job.Keys = nil },
		"opening": func(r *run, cancel func(error)) {
			r.job.Open = func(string) (*writer.Work, error) { return nil, failed }
		},
		"the context": func(r *run, cancel func(error)) {
			open := r.job.Open
			r.job.Open = func(path string) (*writer.Work, error) {
				cancel(failed)
				return open(path)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			fail(r, cancel)
			want := failed
			if r.job.Keys == nil {
				want = recovery.ErrHashes
			}
			swapped, err := Run(ctx, r.job)
			if swapped || !errors.Is(err, want) {
				t.Errorf("%t, %v", swapped, err)
			}
			r.insert(200)
			r.has(0, 100)
			r.has(200, 201)
			r.leavesNothing()
			if len(r.did) > 0 {
				t.Errorf("did %q", r.did)
			}
		})
	}
}

// TestAnotherFile covers W9: a file that has taken the place of the old one by other means, before the
// new one is built or after, is left alone.
func TestAnotherFile(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := newRun(t)
		path, open := r.job.Old.Files.Path(), r.job.Open
		another := func() {
			if err := errors.Join(os.Rename(path, path+".moved"), os.WriteFile(path, []byte("another"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if !late {
			another()
		}
		r.job.Open = func(to string) (*writer.Work, error) { // then a rebuild of the other one begins
			another()
			work, err := open(to)
			return work, errors.Join(err, os.Rename(to, to+".moved"), os.WriteFile(to, nil, 0o600))
		}
		if swapped, err := Run(context.Background(), r.job); swapped || !errors.Is(err, recovery.ErrReplaced) {
			t.Errorf("late %t: %t, %v", late, swapped, err)
		}
		if data, err := os.ReadFile(path); string(data) != "another" {
			t.Errorf("late %t: the file has %d bytes, %v", late, len(data), err)
		}
		if _, err := os.Stat(osfile.RebuildPath(path)); late != (err == nil) {
			t.Errorf("late %t: the file of a rebuild: %v", late, err)
		}
	}
}

// TestGiveUpEndsTheTap: operations after a job that has failed are not taken down any more.
func TestGiveUpEndsTheTap(t *testing.T) {
	r := newRun(t)
	x := &rebuild{Job: r.job, to: osfile.RebuildPath(r.job.Old.Files.Path())}
	x.replayer.tap = writer.NewTap(build.Beside(x.to).Scratch)
	if err := x.build(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.insert(200)
	if n := x.replayer.tap.Len(); n != 1 {
		t.Errorf("%d operations were taken down", n)
	}
	if err := x.giveUp(); err != nil {
		t.Error(err)
	}
	r.insert(201)
	if n := x.replayer.tap.Len(); n != 1 {
		t.Errorf("afterwards, %d operations were taken down", n-1)
	}
	r.leavesNothing()
}
