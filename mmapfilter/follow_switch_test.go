package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// absentFrom returns a key that a filter denies.
func absentFrom(f interface{ Contains([]byte) bool }) []byte {
	for key := range numbers(1<<50, 1<<51) {
		if !f.Contains(key) {
			return bytes.Clone(key)
		}
	}
	return nil
}

// TestFollowAtOnce covers R6: a follower whose next look is an hour away switches after one lookup
// of any kind, once another file has taken the place of its own, in this process and in another
// one.
func TestFollowAtOnce(t *testing.T) {
	if path := os.Getenv("MMAPFILTER_TEST_REBUILD"); path != "" { // the other process
		w, err := Open(path, nil)
		if err == nil {
			err = errors.Join(w.Rebuild(context.Background(), nil), w.Close())
		}
		must(t, err)
		return
	}
	replacements := replacements(t)
	replacements["rebuild"] = func(path string) error {
		w, err := Open(path, &OpenOptions{CommitInterval: -1})
		if err != nil {
			return err
		}
		t.Cleanup(func() { w.Close() })
		return w.Rebuild(context.Background(), nil)
	}
	replacements["rebuild in another process"] = func(path string) error {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFollowAtOnce$")
		cmd.Env = append(os.Environ(), "MMAPFILTER_TEST_REBUILD="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = errors.Join(err, errors.New(string(out)))
		}
		return err
	}
	looks := map[string]func(f *Follower, key []byte) bool{
		"Contains":       (*Follower).Contains,
		"ContainsString": func(f *Follower, key []byte) bool { return f.ContainsString(string(key)) },
		"ContainsBatch": func(f *Follower, key []byte) bool {
			found := make([]bool, 1)
			f.ContainsBatch([][]byte{key}, found)
			return found[0]
		},
		"ContainsHashes": func(f *Follower, key []byte) bool {
			found := make([]bool, 1)
			f.Filter().ContainsHashes([]uint64{f.Filter().Hash(key)}, found)
			return found[0]
		},
	}
	for how, replace := range replacements {
		for kind, look := range looks {
			if how != "build" && kind != "Contains" {
				continue
			}
			for _, checked := range []bool{false, true} {
				built, path := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 800))
				built.Close()
				f := mustFollow(t, path, &OpenOptions{FollowInterval: time.Hour, Checked: checked})
				absent := absentFrom(f)
				if err := replace(path); err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if !look(f, absent) && f.Stats().Swaps == 0 {
					t.Errorf("%s, %s: the old file denies a key", how, kind)
				}
				for f.Stats().Swaps == 0 {
					runtime.Gosched()
				}
				mustHave(t, f, 0, 800)
				if f.Contains(absent) || f.Err() != nil {
					t.Errorf("%s, %s: %t, %v", how, kind, f.Contains(absent), f.Err())
				}
			}
		}
	}
}

// setEpoch sets the epoch of a file, and returns what it was.
func setEpoch(t *testing.T, path string, epoch uint64) (was uint64) {
	t.Helper()
	const off = layout.OffRuntime + 8*layout.RuntimeEpoch
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	var word [8]byte
	if _, err := file.ReadAt(word[:], off); err != nil {
		t.Fatal(err)
	}
	for i := range word {
		was |= uint64(word[i]) << (8 * i)
		word[i] = byte(epoch >> (8 * i))
	}
	if _, err := file.WriteAt(word[:], off); err != nil {
		t.Fatal(err)
	}
	return was
}

// TestFollowAwaits covers R6: a mark wakes the follower once. If the new file does not have the
// name yet, the follower looks again soon, then ever less often. If the mark is taken back, the
// next one wakes it again.
func TestFollowAwaits(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 800))
	const interval = 5 * time.Millisecond
	f, clock := followByClock(t, path, &OpenOptions{FollowInterval: interval})
	defer f.Close()
	<-clock.waits
	absent := absentFrom(f)
	for range 2 {
		epoch := setEpoch(t, path, layout.Superseded)
		if !f.Contains(absent) {
			t.Fatal("a file that is superseded denies a key")
		}
		waits := []time.Duration{<-clock.waits}
		f.Contains(absent)
		for range 4 {
			waits = append(waits, clock.look())
		}
		for i, want := range []time.Duration{1, 2, 4, 5, 5} {
			if waits[i] != want*time.Millisecond {
				t.Errorf("it waits for %v", waits)
				break
			}
		}
		if len(f.wake) != 0 {
			t.Error("the mark wakes it twice")
		}
		setEpoch(t, path, epoch)
		if wait := clock.look(); wait != interval || f.Contains(absent) {
			t.Errorf("without the mark it waits for %v", wait)
		}
	}
	// A file that is refused does not make it look more often.
	data := readFile(t, path)
	setEpoch(t, path, layout.Superseded)
	publish(t, path, nil)
	f.Contains(absent)
	if wait := <-clock.waits; wait < interval || !errors.Is(f.Err(), ErrSuperseded) {
		t.Errorf("it waits for %v, %v", wait, f.Err())
	}
	if f.Contains(absent); len(f.wake) != 0 {
		t.Error("the mark wakes it twice")
	}
	publish(t, path, data)
	if clock.look(); f.Stats().Swaps != 1 || f.Err() != nil {
		t.Errorf("%d swaps, %v", f.Stats().Swaps, f.Err())
	}
}

// TestFollowVerifies covers OpenOptions.VerifyBeforeSwitch: a damaged file does not take the place
// of the one in use, which Follow itself refuses; a good one does.
func TestFollowVerifies(t *testing.T) {
	good := image(t, &Options{Seed: 5}, numbers(0, 3000))
	w, clean := mustCreate(t, &Options{Capacity: 5000, Seed: 6})
	mustInsert(t, w, 0, 3000)
	must(t, w.Close())
	wiped := readFile(t, clean)
	clear(wiped[layout.OffRegion : layout.OffRegion+640]) // whole lines, so that only the count is wrong
	for _, residency := range []Residency{ResidencyDefault, ResidencyHeap} {
		for name, bad := range map[string][]byte{"sealed": flipped(good), "clean": wiped} {
			t.Run(residency.String()+"/"+name, func(t *testing.T) {
				opts := &OpenOptions{FollowInterval: -1, Residency: residency, VerifyBeforeSwitch: true}
				_, path := mustBuild(t, nil, numbers(0, 1000))
				f := mustFollow(t, path, opts)
				unwary := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: residency})
				publish(t, path, bad)
				mustSwap(t, unwary, true) // opening alone does not notice
				mustRefuse(t, f, ErrCorrupt, numbers(0, 1000))
				damage := new(CorruptError)
				if !errors.As(f.Err(), &damage) || !strings.Contains(f.Err().Error(), path) {
					t.Errorf("it does not say what is damaged: %v", f.Err())
				}
				if g, err := Follow(path, opts); !errors.As(err, &damage) || g != nil || !strings.Contains(err.Error(), path) {
					t.Errorf("a first file that is damaged: %v", err)
				}
				publish(t, path, good)
				mustSwap(t, f, true)
				mustServe(t, f, numbers(0, 3000))

				late := filepath.Join(t.TempDir(), "late.mmf")
				waits := *opts
				waits.WaitForFile = true
				f = mustFollow(t, late, &waits)
				publish(t, late, bad)
				if swapped, err := f.Refresh(); swapped || !errors.Is(err, ErrCorrupt) || !f.Contains([]byte("any")) || !errors.Is(f.Err(), ErrCorrupt) {
					t.Errorf("a damaged file that it waits for: %t, %v, %v", swapped, err, f.Err())
				}
				publish(t, late, good)
				mustSwap(t, f, true)
			})
		}
	}
}

// TestFollowVerifiesSuperseded covers K4: while a damaged file is in the place of the one in use,
// which is superseded, no answer is "certainly not".
func TestFollowVerifiesSuperseded(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, VerifyBeforeSwitch: true})
	mustReplace(t, path)
	whole := readFile(t, path)
	must(t, os.WriteFile(path, flipped(whole), 0o644))
	for range 2 {
		if swapped, err := f.Refresh(); swapped || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%t, %v", swapped, err)
		}
		if mustBeSuperseded(t, f.Filter()); !errors.As(f.Err(), new(*CorruptError)) || !errors.Is(f.Err(), ErrSuperseded) {
			t.Errorf("Err: %v", f.Err())
		}
	}
	publish(t, path, whole)
	mustSwap(t, f, true)
}

// TestFollowVerifiesNoWriters: what has a writer cannot be verified, nor what answers "maybe" to all.
func TestFollowVerifiesNoWriters(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, VerifyBeforeSwitch: true, NoRecover: true, ServeUnrecovered: true})
	w, live := mustCreate(t, &Options{Capacity: 5000})
	mustInsert(t, w, 0, 2000)
	must(t, w.Sync())
	dead := abandon(t, w, live)
	must(t, os.Rename(live, path))
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 2000))
	must(t, errors.Join(os.Rename(dead+".stash", path+".stash"), os.Rename(dead, path)))
	if swapped, err := f.Refresh(); !swapped || err != nil || !errors.Is(f.Err(), ErrNeedsRecovery) {
		t.Errorf("%t, %v, %v", swapped, err, f.Err())
	}
	w.Close() // its file has lost its name
}

// holdVerification stops the next verification in its first piece, until what end returns is closed.
func holdVerification(t *testing.T, end func() <-chan struct{}) (begun chan struct{}, last func() (done, total int64)) {
	was := verifying
	t.Cleanup(func() { verifying = was })
	begun = make(chan struct{})
	var last0, last1 int64
	verifying = func(done, total int64) {
		if last0 == 0 {
			close(begun)
			<-end()
		}
		last0, last1 = done, total
	}
	return begun, func() (done, total int64) { return last0, last1 }
}

// TestFollowVerifyEnds: while a new file is verified, the old one answers. Close ends a verification
// between two pieces of the file.
func TestFollowVerifyEnds(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, VerifyBeforeSwitch: true})
	publish(t, path, image(t, &Options{Capacity: 10_000_000}, numbers(0, 1000)))
	begun, last := holdVerification(t, f.life.Done)
	refused := make(chan error)
	go func() {
		_, err := f.Refresh()
		refused <- err
	}()
	<-begun
	mustServe(t, f, numbers(0, 1000))
	if f.Stats().Swaps != 0 || f.Err() != nil {
		t.Errorf("%d swaps, %v", f.Stats().Swaps, f.Err())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := <-refused; !errors.Is(err, ErrClosed) {
		t.Errorf("Refresh: %v", err)
	}
	if done, total := last(); done >= total {
		t.Errorf("%d bytes of %d were verified", done, total)
	}
}
