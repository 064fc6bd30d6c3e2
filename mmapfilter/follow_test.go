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
)

// byHand makes no goroutine look at the path.
var byHand = &OpenOptions{FollowInterval: -1}

func mustFollow(tb testing.TB, path string, opts *OpenOptions) *Follower {
	tb.Helper()
	f, err := Follow(path, opts)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f
}

// publish puts a file at path by renaming it.
func publish(tb testing.TB, path string, data []byte) {
	tb.Helper()
	must(tb, errors.Join(os.WriteFile(path+".new", data, 0o644), os.Rename(path+".new", path)))
}

// mustSwap makes the follower look. It checks whether that finds another file.
func mustSwap(tb testing.TB, f *Follower, want bool) {
	tb.Helper()
	swaps := f.Stats().Swaps
	swapped, err := f.Refresh()
	if err != nil || swapped != want || f.Err() != nil || f.Stats().Swaps-swaps != map[bool]uint64{true: 1}[want] {
		tb.Fatalf("swapped: %t, %v, %v, %d swaps after %d; want %t", swapped, err, f.Err(), f.Stats().Swaps, swaps, want)
	}
}

// mustServe looks up each key, alone and in a batch, and some that are in no file.
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

// TestFollow replaces a file with larger and smaller ones, of other seeds, layouts and
// generations, with each residency.
func TestFollow(t *testing.T) {
	for r := range len(residencyNames) {
		t.Run(Residency(r).String(), func(t *testing.T) {
			_, path := mustBuild(t, nil, numbers(0, 1000))
			f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: Residency(r), Checked: r%2 == 0})
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
				defer g.Close()
				if mustHave(t, f, 500, 1000); Residency(r) != ResidencyHeap { // in either file
					mustBeSuperseded(t, f.Filter()) // until the follower looks
				}
				mustSwap(t, f, true)
				mustServe(t, f, numbers(500, 500+n))
				if f.Filter().Len() != n || f.Filter().Cap() != g.Cap() || f.Filter().Normalisation() != g.Normalisation() || f.Stats().UUID != g.Stats().UUID || f.Stats().Residency != Residency(r).String() {
					t.Errorf("file %d: %+v", i, f.Stats())
				}
				mustSwap(t, f, false)
			}
			// An older file that has changed since: generation 3, then 1.
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

// TestFollowNothing: the errors of Follow are those of OpenReadOnly.
func TestFollowNothing(t *testing.T) {
	dir := t.TempDir()
	before := leaks(t)
	if f, err := Follow(filepath.Join(dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) || f != nil {
		t.Errorf("no file: %v", err)
	}
	if f, err := Follow(dir, nil); err == nil || f != nil {
		t.Error("a directory was opened")
	}
	if f, err := Follow(dir, &OpenOptions{Residency: 99}); !errors.As(err, new(*OptionError)) || f != nil {
		t.Errorf("unknown residency: %v", err)
	}
	if after := leaks(t); after != before {
		t.Errorf("before: %s; after: %s", before, after)
	}
}

// mustRefuse makes the follower look twice at a bad file. The follower continues with the file
// that it has, which holds the keys.
func mustRefuse(t *testing.T, f *Follower, want error, keys iter.Seq2[[]byte, error]) {
	t.Helper()
	swaps := f.Stats().Swaps
	for range 2 {
		swapped, err := f.Refresh()
		if swapped || !errors.Is(err, want) || f.Err() != err || f.Stats().Swaps != swaps {
			t.Fatalf("swapped: %t, %v, Err: %v; want %v", swapped, err, f.Err(), want)
		}
		if !strings.Contains(err.Error(), f.path) {
			t.Errorf("the error does not name the file: %v", err)
		}
	}
	mustServe(t, f, keys)
}

// badFiles returns files that cannot be opened, each with its error.
func badFiles(good []byte) map[string]struct {
	data []byte
	want error
} {
	resigned := func(change func(sb *layout.Superblock)) []byte {
		data := bytes.Clone(good)
		for i := range layout.SuperblockSlots {
			sb := (*layout.Superblock)(data[i*layout.SuperblockBytes:])
			change(sb)
			sb.Sign()
		}
		return data
	}
	flipped := bytes.Clone(good)
	for i := range layout.SuperblockSlots {
		flipped[i*layout.SuperblockBytes+100] ^= 1
	}
	return map[string]struct {
		data []byte
		want error
	}{
		"empty":                     {nil, ErrCorrupt},
		"cut in a superblock":       {good[:5000], ErrCorrupt},
		"cut after the superblocks": {good[:layout.OffRuntime], ErrCorrupt},
		"cut by a byte":             {good[:len(good)-1], ErrCorrupt},
		"flipped bits":              {flipped, ErrCorrupt},
		"foreign":                   {bytes.Repeat([]byte("no filter "), 10_000), ErrCorrupt},
		"newer":                     {resigned(func(sb *layout.Superblock) { sb[40] = 4 }), ErrVersion},
		"live, without a log":       {resigned(func(sb *layout.Superblock) { sb.SetState(layout.Live); sb.SetLogSalt(7); sb.SetLogBytes(65536) }), ErrNeedsRecovery},
	}
}

// TestFollowRefuses covers C5 for a file that replaces another: the follower refuses and reports
// a bad file, the old file keeps answering, and the next good file, or the old one, is taken.
func TestFollowRefuses(t *testing.T) {
	good := image(t, &Options{Seed: 5}, numbers(0, 3000))
	for _, residency := range []Residency{ResidencyDefault, ResidencyHeap, ResidencyPopulate} {
		for name, bad := range badFiles(good) {
			t.Run(residency.String()+"/"+name, func(t *testing.T) {
				_, path := mustBuild(t, nil, numbers(0, 1000))
				f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: residency})
				must(t, os.Rename(path, path+".old"))
				mustRefuse(t, f, fs.ErrNotExist, numbers(0, 1000))
				publish(t, path, bad.data)
				mustRefuse(t, f, bad.want, numbers(0, 1000))
				must(t, os.Rename(path+".old", path))
				mustSwap(t, f, false)
				publish(t, path, bad.data)
				mustRefuse(t, f, bad.want, numbers(0, 1000))
				publish(t, path, good)
				mustSwap(t, f, true)
				mustServe(t, f, numbers(0, 3000))
			})
		}
	}
}

// TestFollowDirectory: a directory in place of the file is refused.
func TestFollowDirectory(t *testing.T) {
	f0, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, byHand)
	must(t, errors.Join(os.Rename(path, path+".old"), os.Mkdir(path, 0o755)))
	if swapped, err := f.Refresh(); swapped || !errors.As(err, new(*fs.PathError)) || f.Err() != err {
		t.Fatalf("swapped: %t, %v", swapped, err)
	}
	mustServe(t, f, numbers(0, 1000))
	must(t, errors.Join(os.Remove(path), os.Rename(path+".old", path)))
	mustSwap(t, f, false)
	if f.Filter().Len() != f0.Len() {
		t.Error(f.Filter().Len())
	}
}

// TestFollowCopyUnderWay: a new file that grows at the path instead of being renamed to it is
// refused until it is complete.
func TestFollowCopyUnderWay(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, byHand)
	good := image(t, &Options{Seed: 5}, numbers(0, 3000))
	must(t, os.Remove(path))
	mustRefuse(t, f, fs.ErrNotExist, numbers(0, 1000))
	out, err := os.Create(path)
	must(t, err)
	defer out.Close()
	for part := good; len(part) > 0; part = part[min(8192, len(part)):] {
		mustRefuse(t, f, ErrCorrupt, numbers(0, 1000))
		if _, err := out.Write(part[:min(8192, len(part))]); err != nil {
			t.Fatal(err)
		}
	}
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 3000))
}

// TestFollowDeadWriter covers R3: the follower recovers a file whose writer died and switches to
// it.
func TestFollowDeadWriter(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, byHand)
	w, live := mustCreate(t, &Options{Capacity: 10_000})
	for key := range numbers(0, 2000) {
		must(t, w.Insert(key))
	}
	dead := abandon(t, w, live)
	must(t, errors.Join(os.Rename(dead+".stash", path+".stash"), os.Rename(dead, path)))
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 2000))
	if s := f.Stats().State; s != "clean" {
		t.Errorf("the file is %s", s)
	}
}

// TestFollowWriter: changes that a writer makes in place are visible without a swap; a copy in
// the heap is made again when the writer has closed the file.
func TestFollowWriter(t *testing.T) {
	_, path := mustBuild(t, &Options{Capacity: 5000}, numbers(0, 1000))
	mapped := mustFollow(t, path, byHand)
	copied := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: ResidencyHeap})
	for round := range uint64(3) {
		from, to := 1000+100*round, 1100+100*round
		w, err := Open(path, nil)
		must(t, err)
		for key := range numbers(from, to) {
			must(t, w.Insert(key))
		}
		must(t, w.Sync())
		mustSwap(t, mapped, false)
		mustServe(t, mapped, numbers(0, to))
		mustRefuse(t, copied, ErrBusy, numbers(0, from))
		if round == 1 {
			err = w.Seal(context.Background())
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		mustSwap(t, mapped, false)
		mustSwap(t, copied, true)
		mustServe(t, copied, numbers(0, to))
		mustSwap(t, copied, false)
	}
}

// TestFollowWrittenOver: if a file is overwritten in place with one of another seed and size,
// the follower reports an error while it is incomplete and then opens it again. That does not
// affect a copy in the heap.
func TestFollowWrittenOver(t *testing.T) {
	for name, opts := range map[string]*Options{
		"larger":  {Seed: 5, Capacity: 50_000},
		"smaller": {Seed: 5, Capacity: 3000},
		"equal":   {Capacity: 10_000}, // except for the keys
	} {
		t.Run(name, func(t *testing.T) {
			_, path := mustBuild(t, &Options{Capacity: 10_000}, numbers(0, 1000))
			mapped := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Checked: true})
			copied := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: ResidencyHeap})
			good := image(t, opts, numbers(0, 3000))
			for _, cut := range []int{len(good) / 2, 0, 1000, layout.OffRuntime} {
				if err := os.WriteFile(path, good[:cut], 0o644); err != nil {
					t.Skipf("this system keeps a mapped file from being cut short: %v", err)
				}
				if swapped, err := mapped.Refresh(); swapped || !errors.Is(err, ErrCorrupt) {
					t.Fatalf("cut at %d: swapped: %t, %v", cut, swapped, err)
				}
				mapped.ContainsString("what is gone") // keeps an error of a fault
				mustRefuse(t, copied, ErrCorrupt, numbers(0, 1000))
			}
			must(t, os.WriteFile(path, good, 0o644))
			mustSwap(t, mapped, true)
			mustSwap(t, mapped, false)
			mustServe(t, mapped, numbers(0, 3000))
			mustSwap(t, copied, true)
			mustServe(t, copied, numbers(0, 3000))
		})
	}
}

// TestFollowWrittenOverUnseen is TestFollowWrittenOver without a look while the file is
// incomplete.
func TestFollowWrittenOverUnseen(t *testing.T) {
	_, path := mustBuild(t, &Options{Capacity: 3000}, numbers(0, 1000))
	f := mustFollow(t, path, byHand)
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer out.Close()
	for _, opts := range []*Options{{Seed: 5, Capacity: 3000}, {Seed: 5, Capacity: 5000}} {
		if _, err := out.WriteAt(image(t, opts, numbers(0, 3000)), 0); err != nil {
			t.Fatal(err)
		}
		mustSwap(t, f, true)
		mustServe(t, f, numbers(0, 3000))
	}
}

// TestFollowHeapIdentity: a copy in the heap does not keep its file's inode number from being
// reused, so the superblocks decide, and the time if those are equal.
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

// TestFollowLink switches a symbolic link, at once and with a moment in which nothing is there.
func TestFollowLink(t *testing.T) {
	_, a := mustBuild(t, nil, numbers(0, 1000))
	_, b := mustBuild(t, &Options{Seed: 5}, numbers(0, 2000))
	link := filepath.Join(t.TempDir(), "link.mmf")
	point := func(to string) {
		t.Helper()
		must(t, errors.Join(os.Symlink(to, link+".new"), os.Rename(link+".new", link)))
	}
	if err := os.Symlink(a, link); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
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

// TestFollowSlowOpen: while a new file is copied, the old one answers. A Close in that time does
// not wait for a Refresh, and nothing of the new file is left.
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
	type result struct {
		swapped bool
		err     error
	}
	results := make(chan result)
	refresh := func() {
		swapped, err := f.Refresh()
		results <- result{swapped, err}
	}
	publish(t, path, image(t, nil, numbers(0, 2000)))
	go refresh()
	<-copying
	if mustServe(t, f, numbers(0, 1000)); f.Filter().Len() != 1000 || f.Stats().Swaps != 0 || f.Err() != nil {
		t.Errorf("%d keys, %d swaps, %v", f.Filter().Len(), f.Stats().Swaps, f.Err())
	}
	goOn <- struct{}{}
	if r := <-results; !r.swapped || r.err != nil || f.Filter().Len() != 2000 {
		t.Errorf("%+v, %d keys", r, f.Filter().Len())
	}
	publish(t, path, image(t, nil, numbers(0, 3000)))
	go refresh()
	<-copying
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	goOn <- struct{}{}
	if r := <-results; r.swapped || !errors.Is(r.err, ErrClosed) || f.Stats().Swaps != 1 {
		t.Errorf("after Close: %+v, %d keys", r, f.Filter().Len())
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
