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

const seed = 1 // the seed of a tabletest.Volume

// A run is a Job for a filter in a file, and what the Job has done.
type run struct {
	*testing.T
	job  Job
	next *writer.Work
	did  []string
}

// newRun creates a filter with the keys of the numbers below 100, and a Job whose new file is larger.
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

// using returns the Work that is in use.
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

// insert inserts the key of a number into the file in use.
func (r *run) insert(number uint64) {
	r.Helper()
	if err := r.using().Writer.Insert(hashOf(number)); err != nil {
		r.Fatal(err)
	}
}

// has checks that the file in use has the keys of the numbers in [from, to).
func (r *run) has(from, to uint64) {
	r.Helper()
	for number := from; number < to; number++ {
		if !r.using().Writer.Contains(hashOf(number)) {
			r.Fatalf("key %d is lost", number)
		}
	}
}

// leavesNothing checks that the file in use is at its path, and that no files but it and its log are
// left.
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

// TestReplayFindsNoRoom covers K3: if an operation that comes during a rebuild finds no room in the new
// file, the rebuild must fail and the old file go on, even if the keys come from the caller, so that
// positions cannot show the loss. If only the log has no room, the replay must make room there.
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

// TestAnotherFile covers W9: a rebuild must not replace a file that has replaced the old one by other
// means, before the new file is built or after.
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
		r.job.Open = func(to string) (*writer.Work, error) { // after that, a rebuild of the other file begins
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

// TestGiveUpEndsTheTap checks that a Job that fails leaves everything as it was, and that operations do
// not go to the tap any more.
func TestGiveUpEndsTheTap(t *testing.T) {
	r, failed := newRun(t), errors.New("it fails")
	r.job.Open = func(string) (*writer.Work, error) { return nil, failed }
	if swapped, err := Run(context.Background(), r.job); swapped || !errors.Is(err, failed) || len(r.did) > 0 {
		t.Errorf("%t, %v, did %q", swapped, err, r.did)
	}
	r.has(0, 100)
	r.leavesNothing()
	x := &rebuild{Job: r.job, to: osfile.RebuildPath(r.job.Old.Files.Path())}
	x.replayer.tap = writer.NewTap(build.Beside(x.to).Scratch)
	if err := x.build(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.insert(200)
	if n := x.replayer.tap.Len(); n != 1 {
		t.Errorf("the tap has %d operations", n)
	}
	if err := x.giveUp(); err != nil {
		t.Error(err)
	}
	r.insert(201)
	if n := x.replayer.tap.Len(); n != 1 {
		t.Errorf("after giveUp, %d operations came to the tap", n-1)
	}
	r.leavesNothing()
}
