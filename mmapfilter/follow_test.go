package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// byHand makes a follower look only in Refresh, and not in a goroutine.
var byHand = &OpenOptions{FollowInterval: -1}

func mustFollow(tb testing.TB, path string, opts *OpenOptions) *Follower {
	tb.Helper()
	f, err := Follow(path, opts)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f
}

// publish writes a file, and renames it to path.
func publish(tb testing.TB, path string, data []byte) {
	tb.Helper()
	must(tb, os.WriteFile(path+".new", data, 0o644))
	mustRename(tb, path+".new", path)
}

// mustSwap makes the follower look, and checks whether it switches to another file.
func mustSwap(tb testing.TB, f *Follower, want bool) {
	tb.Helper()
	swaps := f.Stats().Swaps
	swapped, err := f.Refresh()
	if err != nil || swapped != want || f.Err() != nil || f.Stats().Swaps-swaps != map[bool]uint64{true: 1}[want] {
		tb.Fatalf("swapped: %t, %v, %v, %d swaps after %d; want %t", swapped, err, f.Err(), f.Stats().Swaps, swaps, want)
	}
}

// mustServe looks up each key, alone and in a batch, and some absent keys.
func mustServe(tb testing.TB, f *Follower, keys iter.Seq2[[]byte, error]) {
	tb.Helper()
	var batch [][]byte
	for key := range keys {
		if !f.Contains(key) || !f.ContainsString(string(key)) {
			tb.Fatalf("key %x is lost", key)
		}
		batch = append(batch, bytes.Clone(key))
	}
	present := len(batch)
	for key := range numbers(1<<40, 1<<40+1000) {
		batch = append(batch, bytes.Clone(key))
	}
	found, wrong := make([]bool, len(batch)), 0
	f.ContainsBatch(batch, found)
	for i, key := range batch {
		switch {
		case found[i] != f.Contains(key):
			tb.Fatalf("key %x is %t in a batch", key, found[i])
		case i < present && !found[i]:
			tb.Fatalf("key %x is lost in a batch", key)
		case i >= present && found[i]:
			wrong++
		}
	}
	if wrong > 100 {
		tb.Fatalf("%d of 1,000 absent keys are found", wrong)
	}
}

// TestFollow replaces a file with larger and smaller files that have other seeds, rates and generations,
// for followers with each residency.
func TestFollow(t *testing.T) {
	for r := range len(residencyNames) {
		t.Run(Residency(r).String(), func(t *testing.T) {
			_, path := mustBuild(t, nil, numbers(0, 1000))
			f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: Residency(r), Checked: r%2 == 0})
			kept := Residency(r)
			if !osfile.Replaces {
				kept = ResidencyHeap
			}
			mustSwap(t, f, false)
			mustServe(t, f, numbers(0, 1000))
			for i, opts := range []*Options{
				{Seed: 1},
				{FalsePositiveRate: 1e-5, Capacity: 100_000},
				{FalsePositiveRate: 0.05, Normalisation: "as they are"},
				{Seed: 2, Capacity: 5000},
				nil,
			} {
				n := uint64(2000 + i)
				g, err := Build(context.Background(), path, opts, numbers(500, 500+n))
				must(t, err)
				if mustHave(t, f, 500, 1000); Residency(r) != ResidencyHeap && osfile.Replaces { // in both files
					mustBeSuperseded(t, f.Filter()) // until the follower looks
				}
				old := f.Filter()
				mustSwap(t, f, true)
				if !old.open.Load().released.Load() || f.Filter().open.Load().released.Load() {
					t.Error("the old file is not released, or the new one is")
				}
				mustHave(t, old, 500, 1000) // a caller may still use it
				mustServe(t, f, numbers(500, 500+n))
				if f.Filter().Len() != n || f.Filter().Cap() != g.Cap() || f.Filter().Normalisation() != g.Normalisation() || f.Stats().UUID != g.Stats().UUID || f.Stats().Residency != kept.String() {
					t.Errorf("file %d: %+v", i, f.Stats())
				}
				mustSwap(t, f, false)
				must(t, g.Close())
			}
			needsWriters(t)
			// A file that a writer has changed, and then the same file as it was before: generation 1.
			old := image(t, nil, numbers(0, 1000))
			publish(t, path, old)
			w, err := Open(path, nil)
			if err == nil {
				err = errors.Join(w.Insert([]byte("in place")), w.Close())
			}
			must(t, err)
			mustSwap(t, f, true)
			if g := f.Stats().Generation; g < 2 || !f.ContainsString("in place") {
				t.Errorf("generation %d", g)
			}
			publish(t, path, old)
			mustSwap(t, f, true)
			if g := f.Stats().Generation; g != 1 || f.Filter().Len() != 1000 {
				t.Errorf("generation %d", g)
			}
		})
	}
}

// TestFollowNothing: Follow returns the same errors as OpenReadOnly.
func TestFollowNothing(t *testing.T) {
	dir := t.TempDir()
	mustLeakNothing := leaks(t)
	if f, err := Follow(filepath.Join(dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) || f != nil {
		t.Errorf("no file: %v", err)
	}
	if f, err := Follow(dir, nil); err == nil || f != nil {
		t.Error("a directory was opened")
	}
	if f, err := Follow(dir, &OpenOptions{Residency: 99}); !errors.As(err, new(*OptionError)) || f != nil {
		t.Errorf("unknown residency: %v", err)
	}
	mustLeakNothing()
}

// mustRefuse makes the follower look twice at a bad file. The follower must go on with its own file,
// which has the keys. If want is nil, any error will do.
func mustRefuse(t *testing.T, f *Follower, want error, keys iter.Seq2[[]byte, error]) {
	t.Helper()
	swaps := f.Stats().Swaps
	for range 2 {
		swapped, err := f.Refresh()
		if swapped || err == nil || want != nil && !errors.Is(err, want) || f.Err() != err || f.Stats().Swaps != swaps {
			t.Fatalf("swapped: %t, %v, Err: %v; want %v", swapped, err, f.Err(), want)
		}
		if !strings.Contains(err.Error(), f.path) {
			t.Errorf("the error does not name the file: %v", err)
		}
	}
	mustServe(t, f, keys)
}

// TestFollowRefuses covers C5 for a file that replaces another: a follower refuses and reports a bad
// file, and the old file goes on answering. If a good file or the old one then has the name, the
// follower uses it.
func TestFollowRefuses(t *testing.T) {
	good := image(t, &Options{Seed: 5}, numbers(0, 3000))
	for _, residency := range []Residency{ResidencyDefault, ResidencyHeap, ResidencyPopulate} {
		for name, bad := range badFiles(t, good) {
			if bad.open == nil {
				continue
			}
			t.Run(residency.String()+"/"+name, func(t *testing.T) {
				_, path := mustBuild(t, nil, numbers(0, 1000))
				f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: residency})
				mustRename(t, path, path+".old")
				mustRefuse(t, f, fs.ErrNotExist, numbers(0, 1000))
				publish(t, path, bad.data)
				mustRefuse(t, f, bad.open, numbers(0, 1000))
				must(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o755)))
				if mustRefuse(t, f, nil, numbers(0, 1000)); !errors.As(f.Err(), new(*fs.PathError)) {
					t.Errorf("a directory: %v", f.Err())
				}
				must(t, errors.Join(os.Remove(path), os.Rename(path+".old", path)))
				mustSwap(t, f, false)
				publish(t, path, bad.data)
				mustRefuse(t, f, bad.open, numbers(0, 1000))
				publish(t, path, good)
				mustSwap(t, f, true)
				mustServe(t, f, numbers(0, 3000))
			})
		}
	}
}

// TestFollowWriter: a follower that maps a file sees the changes of a writer without a swap. A follower
// with a copy in the heap makes a new copy once the writer has closed the file.
func TestFollowWriter(t *testing.T) {
	_, path := mustBuild(t, &Options{Capacity: 5000}, numbers(0, 1000))
	mapped := mustFollow(t, path, byHand)
	copied := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: ResidencyHeap})
	for round := range uint64(3) {
		from, to := 1000+100*round, 1100+100*round
		w := mustOpen(t, path, nil)
		mustInsert(t, w, from, to)
		must(t, w.Sync())
		mustSwap(t, mapped, false)
		mustServe(t, mapped, numbers(0, to))
		mustRefuse(t, copied, ErrBusy, numbers(0, from))
		if round == 1 {
			must(t, w.Seal(context.Background()))
		}
		must(t, w.Close())
		mustSwap(t, mapped, false)
		mustSwap(t, copied, true)
		mustServe(t, copied, numbers(0, to))
		mustSwap(t, copied, false)
	}
}

// TestFollowWrittenOver: if a file is overwritten in place with a file of another seed and size, the
// follower reports an error while the file is incomplete, and then opens it again. A copy in the heap
// answers meanwhile.
func TestFollowWrittenOver(t *testing.T) {
	for name, c := range map[string]struct {
		opts   Options
		unseen bool // the follower does not look while the file is incomplete
	}{
		"larger":              {Options{Seed: 5, Capacity: 50_000}, false},
		"smaller":             {Options{Seed: 5, Capacity: 3000}, false},
		"other keys":          {Options{Capacity: 10_000}, false},
		"larger, unseen":      {Options{Seed: 5, Capacity: 50_000}, true},
		"of its size, unseen": {Options{Seed: 5, Capacity: 10_000}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, path := mustBuild(t, &Options{Capacity: 10_000}, numbers(0, 1000))
			mapped := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Checked: !c.unseen})
			copied := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: ResidencyHeap})
			good := image(t, &c.opts, numbers(0, 3000))
			for _, cut := range []int{len(good) / 2, 0, 1000, layout.OffRuntime} {
				if c.unseen {
					break
				}
				if err := os.WriteFile(path, good[:cut], 0o644); err != nil {
					t.Skipf("this system keeps a mapped file from being cut short: %v", err)
				}
				if swapped, err := mapped.Refresh(); swapped || !errors.Is(err, ErrCorrupt) {
					t.Fatalf("cut at %d: swapped: %t, %v", cut, swapped, err)
				}
				mapped.ContainsString("what is gone") // keeps an error of a fault
				mustRefuse(t, copied, ErrCorrupt, numbers(0, 1000))
			}
			out, err := os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = out.WriteAt(good, 0)
			must(t, errors.Join(err, out.Close()))
			for _, f := range []*Follower{mapped, copied} {
				mustSwap(t, f, true)
				mustSwap(t, f, false)
				mustServe(t, f, numbers(0, 3000))
			}
		})
	}
}

// TestFollowHeapIdentity: the inode number of a file may be reused if a follower has only a copy in the
// heap. So the follower compares the superblocks and, if they are equal, the modification times.
func TestFollowHeapIdentity(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: ResidencyHeap})
	info, err := os.Stat(path)
	must(t, err)
	must(t, errors.Join(os.WriteFile(path, image(t, nil, numbers(0, 1001)), 0o644), os.Chtimes(path, time.Time{}, info.ModTime())))
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 1001))
	must(t, os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Second)))
	mustSwap(t, f, true)
	mustSwap(t, f, false)
}

// TestFollowLink changes a symbolic link, atomically and with a time in which there is no file.
func TestFollowLink(t *testing.T) {
	_, a := mustBuild(t, nil, numbers(0, 1000))
	_, b := mustBuild(t, &Options{Seed: 5}, numbers(0, 2000))
	link := filepath.Join(t.TempDir(), "link.mmf")
	point := func(to string) {
		t.Helper()
		must(t, errors.Join(os.Symlink(to, link+".new"), os.Rename(link+".new", link)))
	}
	symlink(t, a, link)
	f := mustFollow(t, link, byHand)
	point(b)
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 2000))
	point(filepath.Join(t.TempDir(), "none"))
	mustRefuse(t, f, fs.ErrNotExist, numbers(0, 2000))
	point(b)
	mustSwap(t, f, false)
	must(t, os.Remove(link))
	mustRefuse(t, f, fs.ErrNotExist, numbers(0, 2000))
	point(a)
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 1000))
	must(t, os.Rename(b, a))
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 2000))
}

// TestFollowRelative: the followed path does not depend on the working directory.
func TestFollowRelative(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	t.Chdir(filepath.Dir(path))
	f := mustFollow(t, filepath.Base(path), byHand)
	t.Chdir(t.TempDir())
	mustSwap(t, f, false)
	publish(t, path, image(t, nil, numbers(0, 2000)))
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 2000))
}

// TestFollowSlowOpen: while a follower copies a new file, the old one answers. A Close in that time does
// not wait for the Refresh, which then fails and drops the new file.
func TestFollowSlowOpen(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	copying, goOn := make(chan struct{}), make(chan struct{})
	hold := false
	f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: ResidencyHeap, Progress: func(done, total int64) {
		if hold && done == total {
			copying <- struct{}{}
			<-goOn
		}
	}})
	hold = true
	results := make(chan error)
	for _, closes := range []bool{false, true} {
		n, swaps := f.Filter().Len(), f.Stats().Swaps
		publish(t, path, image(t, nil, numbers(0, n+1000)))
		go func() { _, err := f.Refresh(); results <- err }()
		<-copying
		if mustServe(t, f, numbers(0, 1000)); f.Filter().Len() != n || f.Stats().Swaps != swaps || f.Err() != nil {
			t.Errorf("%d keys, %d swaps, %v", f.Filter().Len(), f.Stats().Swaps, f.Err())
		}
		var want error
		if closes {
			want = ErrClosed
			must(t, f.Close())
		}
		goOn <- struct{}{}
		if err := <-results; !errors.Is(err, want) || f.Stats().Swaps != 1 {
			t.Errorf("closed %t: %v, %d swaps", closes, err, f.Stats().Swaps)
		}
	}
	mustBeClosed(t, f)
}

func mustBeClosed(t *testing.T, f *Follower) {
	t.Helper()
	mustSayMaybe(t, f)
	mustSayMaybe(t, f.Filter())
	swapped, err := f.Refresh()
	if want := (Stats{Len: f.Filter().Len(), Plan: Plan{Capacity: f.Filter().Cap()}, State: "closed", Swaps: f.Stats().Swaps}); swapped || !errors.Is(err, ErrClosed) || !errors.Is(f.Err(), ErrClosed) ||
		f.Filter().Len() == 0 || f.Filter().Cap() == 0 || f.Stats() != want || f.Filter().Normalisation() != "" || f.Close() != nil {
		t.Errorf("after Close: %t, %v, %v, %+v", swapped, err, f.Err(), f.Stats())
	}
}
