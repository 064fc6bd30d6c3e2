package mmapfilter

import (
	"bytes"
	"context"
	"encoding/binary"
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

// absentFrom returns a key that is certainly not in a filter.
func absentFrom(f interface{ Contains([]byte) bool }) []byte {
	for key := range numbers(1<<50, 1<<51) {
		if !f.Contains(key) {
			return bytes.Clone(key)
		}
	}
	return nil
}

// TestFollowAtOnce covers R6: once another file has replaced the file of a follower, one lookup of any
// kind makes the follower switch, even if its next look is an hour away. This process or another one
// replaces the file.
func TestFollowAtOnce(t *testing.T) {
	if path := os.Getenv("MMAPFILTER_TEST_REBUILD"); path != "" { // the other process
		w, err := Open(path, nil)
		if err == nil {
			err = errors.Join(w.Rebuild(context.Background(), nil), w.Close())
		}
		must(t, err)
		return
	}
	needsReplacing(t)
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
					t.Errorf("%s, %s: the old file answers certainly not", how, kind)
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
	_, err = file.ReadAt(word[:], off)
	must(t, err)
	was = binary.LittleEndian.Uint64(word[:])
	binary.LittleEndian.PutUint64(word[:], epoch)
	_, err = file.WriteAt(word[:], off)
	must(t, err)
	return was
}

// TestFollowAwaits covers R6: a file that becomes superseded wakes the follower once. If the new file
// does not have the name yet, the follower looks again soon, and then less and less often. If the file
// is no longer superseded, and later is again, it wakes the follower again.
func TestFollowAwaits(t *testing.T) {
	needsReplacing(t)
	_, path := mustBuild(t, nil, numbers(0, 800))
	const interval = 5 * time.Millisecond
	f, clock := followByClock(t, path, &OpenOptions{FollowInterval: interval})
	defer f.Close()
	<-clock.waits
	absent := absentFrom(f)
	for range 2 {
		epoch := setEpoch(t, path, layout.Superseded)
		if !f.Contains(absent) {
			t.Fatal("a superseded file answers certainly not")
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
			t.Error("the superseded file wakes it twice")
		}
		setEpoch(t, path, epoch)
		if wait := clock.look(); wait != interval || f.Contains(absent) {
			t.Errorf("once the file is no longer superseded, it waits for %v", wait)
		}
	}
	// A refused file does not make the follower look more often.
	data := readFile(t, path)
	setEpoch(t, path, layout.Superseded)
	publish(t, path, nil)
	f.Contains(absent)
	if wait := <-clock.waits; wait < interval || !errors.Is(f.Err(), ErrSuperseded) {
		t.Errorf("it waits for %v, %v", wait, f.Err())
	}
	if f.Contains(absent); len(f.wake) != 0 {
		t.Error("the superseded file wakes it twice")
	}
	publish(t, path, data)
	if clock.look(); f.Stats().Swaps != 1 || f.Err() != nil {
		t.Errorf("%d swaps, %v", f.Stats().Swaps, f.Err())
	}
}

// TestFollowVerifies covers OpenOptions.VerifyBeforeSwitch: a follower does not switch to a damaged
// file, but to a good one, and Follow refuses a damaged first file.
func TestFollowVerifies(t *testing.T) {
	good := image(t, &Options{FalsePositiveRate: 0.1, Seed: 5}, numbers(0, 3000))
	for name, bad := range badFiles(t, good) {
		if bad.open != nil || bad.verify == nil {
			continue
		}
		for _, residency := range []Residency{ResidencyDefault, ResidencyHeap} {
			t.Run(residency.String()+"/"+name, func(t *testing.T) {
				opts := OpenOptions{FollowInterval: -1, Residency: residency, VerifyBeforeSwitch: true}
				_, path := mustBuild(t, nil, numbers(0, 1000))
				f := mustFollow(t, path, &opts)
				unwary := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: residency})
				publish(t, path, bad.data)
				mustSwap(t, unwary, true) // opening does not find the damage
				mustRefuse(t, f, bad.verify, numbers(0, 1000))
				if g, err := Follow(path, &opts); !errors.As(err, new(*CorruptError)) || g != nil || !strings.Contains(err.Error(), path) {
					t.Errorf("a first file that is damaged: %v", err)
				}
				late := filepath.Join(t.TempDir(), "late.mmf")
				opts.WaitForFile = true
				waits := mustFollow(t, late, &opts)
				publish(t, late, bad.data)
				if swapped, err := waits.Refresh(); swapped || !errors.Is(err, bad.verify) || !waits.Contains([]byte("any")) || !errors.Is(waits.Err(), bad.verify) {
					t.Errorf("a damaged file, for a follower that waits for a file: %t, %v, %v", swapped, err, waits.Err())
				}
				for path, f := range map[string]*Follower{path: f, late: waits} {
					publish(t, path, good)
					mustSwap(t, f, true)
					mustHave(t, f, 0, 3000)
				}
			})
		}
	}
}

// TestFollowVerifiesSuperseded covers K4: if a damaged file has replaced the file in use, the follower
// does not switch, but the file in use is superseded. So no answer is "certainly not".
func TestFollowVerifiesSuperseded(t *testing.T) {
	needsReplacing(t)
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, VerifyBeforeSwitch: true})
	mustReplace(t, path)
	whole := readFile(t, path)
	must(t, flipByte(path, layout.OffRegion+1000))
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

// TestFollowVerifiesNoWriters: a follower switches without a verification to a file that has a writer,
// or that needs recovery and answers "maybe" for all keys, because neither can be verified.
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
	w.Close() // may fail, because its file has no name
}

// TestFollowVerifyEnds: while a follower verifies a new file, the old one answers. Close ends the
// verification between two parts of the file.
func TestFollowVerifyEnds(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, VerifyBeforeSwitch: true})
	publish(t, path, image(t, &Options{Capacity: 10_000_000}, numbers(0, 1000)))
	defer func(was func(done, total int64)) { verifying = was }(verifying)
	begun, refused := make(chan struct{}), make(chan error)
	var last, all int64
	verifying = func(done, total int64) {
		if last == 0 {
			close(begun)
			<-f.life.Done()
		}
		last, all = done, total
	}
	go func() {
		_, err := f.Refresh()
		refused <- err
	}()
	<-begun
	mustServe(t, f, numbers(0, 1000))
	if f.Stats().Swaps != 0 || f.Err() != nil {
		t.Errorf("%d swaps, %v", f.Stats().Swaps, f.Err())
	}
	must(t, f.Close())
	if err := <-refused; !errors.Is(err, ErrClosed) || last >= all {
		t.Errorf("Refresh: %v after %d bytes of %d", err, last, all)
	}
}
