package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// An asker is a Filter or a Follower.
type asker interface {
	Contains(key []byte) bool
	ContainsString(key string) bool
	ContainsBatch(keys [][]byte, found []bool)
	Stats() Stats
	Err() error
	Close() error
}

// TestNoWrongNoInAClose covers C1: a service looks up keys of a filter while it closes the filter. No
// answer may be "certainly not", whatever kind of filter it is. Afterwards every answer is "maybe".
func TestNoWrongNoInAClose(t *testing.T) {
	const n = 1000
	built, path := mustBuild(t, nil, numbers(0, n))
	built.Close()
	var keys [][]byte
	for key := range numbers(0, n) {
		keys = append(keys, append([]byte(nil), key...))
	}
	kinds := map[string]func() (asker, error){
		"mapped":   func() (asker, error) { return OpenReadOnly(path, nil) },
		"checked":  func() (asker, error) { return OpenReadOnly(path, &OpenOptions{Checked: true}) },
		"heap":     func() (asker, error) { return OpenReadOnly(path, &OpenOptions{Residency: ResidencyHeap}) },
		"followed": func() (asker, error) { return Follow(path, byHand) },
		"writer":   func() (asker, error) { return Open(path, nil) },
	}
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				f, err := open()
				must(t, err)
				var wrong atomic.Int64
				var group sync.WaitGroup
				var begun [4]atomic.Bool
				stop := make(chan struct{})
				for worker := range begun {
					group.Add(1)
					go func() {
						defer group.Done()
						found := make([]bool, len(keys))
						for {
							f.ContainsBatch(keys, found)
							for i, key := range keys {
								if !found[i] || !f.Contains(key) {
									wrong.Add(1)
								}
							}
							if worker == 0 {
								f.Stats()
							}
							begun[worker].Store(true)
							runtime.Gosched() // for the goroutine that closes
							select {
							case <-stop:
								return
							default:
							}
						}
					}()
				}
				all := func() bool { return begun[0].Load() && begun[1].Load() && begun[2].Load() && begun[3].Load() }
				eventually(t, "all goroutines look keys up", all)
				must(t, errors.Join(f.Err(), f.Close(), f.Close()))
				runtime.GC() // unmaps memory that no lookup uses
				mustSayMaybe(t, f)
				if want := (Stats{Len: n, Plan: Plan{Capacity: n}, State: "closed"}); f.Stats() != want || !errors.Is(f.Err(), ErrClosed) {
					t.Errorf("after Close: %+v, %v", f.Stats(), f.Err())
				}
				for worker := range begun {
					begun[worker].Store(false)
				}
				eventually(t, "all goroutines look keys up again", all)
				close(stop)
				group.Wait()
				if n := wrong.Load(); n > 0 {
					t.Fatalf("for keys in the filter, %d answers were \"certainly not\"", n)
				}
			}
		})
	}
}

func deadWriterOf(t *testing.T, opts *Options, n, synced int) (path string) {
	t.Helper()
	f, alive := mustCreate(t, opts)
	insertAll(t, f, spreads(0, synced))
	must(t, f.Sync())
	insertAll(t, f, spreads(synced, n))
	return abandon(t, f, alive)
}

// contents reads every file of a directory, with its modification time.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		data := readFile(t, filepath.Join(dir, e.Name()))
		info, err := e.Info()
		must(t, err)
		files[e.Name()] = info.ModTime().String() + string(data)
	}
	return files
}

// TestNoRecover: with NoRecover, opening, using and closing a file whose writer died changes nothing on
// the disk. Opening returns ErrNeedsRecovery or, with ServeUnrecovered, a filter that answers "maybe"
// for every key. Without NoRecover, opening recovers the file.
func TestNoRecover(t *testing.T) {
	path := deadWriter(t, 500, 300)
	before := contents(t, filepath.Dir(path))
	unchanged := func() {
		t.Helper()
		if !maps.Equal(contents(t, filepath.Dir(path)), before) {
			t.Fatal("a file was written to")
		}
	}
	if _, err := OpenReadOnly(path, &OpenOptions{NoRecover: true}); !errors.Is(err, ErrNeedsRecovery) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v is not ErrNeedsRecovery in one line", err)
	}
	if f, err := Follow(path, &OpenOptions{NoRecover: true}); !errors.Is(err, ErrNeedsRecovery) {
		t.Fatalf("%v, %v", f, err)
	}
	unchanged()
	for _, residency := range []Residency{ResidencyDefault, ResidencyHeap} {
		f := mustOpenReadOnly(t, path, &OpenOptions{NoRecover: true, ServeUnrecovered: true, Residency: residency})
		mustSayMaybe(t, f)
		if s := f.Stats(); s.WriterAlive || s.State != "live" || s.Capacity != 10_000 || !errors.Is(f.Err(), ErrNeedsRecovery) {
			t.Errorf("%+v, %v", s, f.Err())
		}
		if err := f.Close(); !errors.Is(err, ErrNeedsRecovery) {
			t.Error(err)
		}
		unchanged()
	}

	follower := mustFollow(t, path, &OpenOptions{NoRecover: true, ServeUnrecovered: true, FollowInterval: -1})
	mustSayMaybe(t, follower)
	if swapped, err := follower.Refresh(); swapped || !errors.Is(err, ErrNeedsRecovery) {
		t.Errorf("%t, %v", swapped, err)
	}
	unchanged()

	// With ServeUnrecovered, but without NoRecover, a file is recovered if that is possible.
	f := mustOpenReadOnly(t, path, &OpenOptions{ServeUnrecovered: true})
	if f.Len() != 500 || f.ContainsString("absent") || f.Err() != nil {
		t.Errorf("%d keys, %v", f.Len(), f.Err())
	}
	mustContain(t, f, spreads(0, 500))
	// The follower switches to the recovered file.
	if swapped, err := follower.Refresh(); !swapped || err != nil || follower.Filter().Len() != 500 || follower.ContainsString("absent") || follower.Err() != nil {
		t.Errorf("%t, %v, %d keys, %v", swapped, err, follower.Filter().Len(), follower.Err())
	}
}

// TestServeWithoutALog: a file whose log is lost cannot be recovered, but it can be opened with
// ServeUnrecovered.
func TestServeWithoutALog(t *testing.T) {
	path := deadWriter(t, 500, 300)
	must(t, os.Remove(path+".stash"))
	if _, err := OpenReadOnly(path, nil); !errors.Is(err, ErrNeedsRecovery) || !errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v is not both in one line", err)
	}
	f := mustOpenReadOnly(t, path, &OpenOptions{ServeUnrecovered: true})
	mustSayMaybe(t, f)
}

// TestWriterDied: the stats of a reader and of a follower say whether the file has a writer. If the
// writer dies, the follower has an error. Lookups still find what was committed.
func TestWriterDied(t *testing.T) {
	w, path := mustCreate(t, &Options{Capacity: 10_000, CommitInterval: -1})
	must(t, w.InsertHash(spread(0)))
	must(t, w.Sync())
	f := mustOpenReadOnly(t, path, nil)
	follower := mustFollow(t, path, &OpenOptions{FollowInterval: -1})
	check := func(alive bool, want error) {
		t.Helper()
		swapped, err := follower.Refresh()
		if swapped || !errors.Is(err, want) || !errors.Is(follower.Err(), want) || follower.Stats().WriterAlive != alive || f.Stats().WriterAlive != alive {
			t.Errorf("swapped: %t, %v, %v, writer alive: %t and %t", swapped, err, follower.Err(), follower.Stats().WriterAlive, f.Stats().WriterAlive)
		}
		if !f.ContainsHash(spread(0)) || !follower.Filter().ContainsHash(spread(0)) {
			t.Error("a key is lost")
		}
	}
	if !w.Stats().WriterAlive {
		t.Error("the writer says that there is no writer")
	}
	check(true, nil)
	// Release the lock and write nothing, as the kernel does when a process dies.
	must(t, w.open.Load().work.Writer.Protocol().Detach()())
	check(false, ErrNeedsRecovery)
	_, err := Recover(path)
	must(t, err)
	check(false, nil)
	w = mustOpen(t, path, nil)
	check(true, nil)
	must(t, w.Close())
	check(false, nil)
}

// TestNoWrongNoAfterAWriter covers C1: lookups and counts of a filter are delayed. Meanwhile the filter
// is closed, perhaps after a failure, and another writer opens the file and moves the keys. The memory
// of the closed filter does not show these moves. No answer may be "certainly not".
func TestNoWrongNoAfterAWriter(t *testing.T) {
	for _, fail := range []bool{false, true} {
		const n = 20_000
		f, path := mustCreate(t, &Options{Capacity: n})
		hashes := spreads(0, n)
		insertAll(t, f, hashes[:n-1000])
		must(t, f.Sync())
		insertAll(t, f, hashes[n-1000:])
		o := f.open.Load() // as loaded by a lookup that is delayed from here on
		if o.work.Writer.State().Pending == 0 {
			t.Fatal("no operations are pending, so this test tests nothing")
		}
		if fail {
			o.work.Writer.Fail(errors.New("a sync failed"))
		}
		f.Close()
		other := mustOpen(t, path, nil)
		for i := n; other.InsertHash(spread(i)) == nil; i++ {
		}
		other.Close()
		found := make([]bool, n)
		o.lookUpAll(hashes, found)
		for i := range 1000 { // nobody inserted these, but the closed filter cannot know that
			if hash := spread(1<<30 + i); !o.contains(hash) || o.work.Writer.Count(hash) != writer.Unknown {
				t.Fatalf("failed: %t: the closed filter claims to know about an absent key", fail)
			}
		}
		for i, hash := range hashes {
			if !found[i] || !o.contains(hash) || o.work.Writer.Count(hash) == 0 {
				t.Fatalf("failed: %t: for key %d of %d, the answer is \"certainly not\"", fail, i, n)
			}
		}
	}
}

// TestWaitForFile: a follower that waits for a file answers "maybe" for every key, and its error says
// why there is no file. Once there is a file, the follower uses it.
func TestWaitForFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join("there", "f"), path); err != nil { // the directory does not exist either
		t.Skip(err)
	}
	if _, err := Follow(path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	f := mustFollow(t, path, &OpenOptions{WaitForFile: true, FollowInterval: time.Millisecond})
	mustSayMaybe(t, f)
	mustSayMaybe(t, f.Filter())
	ended := mustFollow(t, path, &OpenOptions{WaitForFile: true})
	must(t, ended.Close())
	mustSayMaybe(t, ended)
	if swapped, err := ended.Refresh(); swapped || !errors.Is(err, ErrClosed) || !errors.Is(ended.Err(), ErrClosed) || ended.Stats() != (Stats{State: "closed"}) {
		t.Errorf("%t, %v, %v, %+v", swapped, err, ended.Err(), ended.Stats())
	}
	if err := f.Filter().Err(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := f.Filter().Insert([]byte("a")); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if s := f.Stats(); s != (Stats{State: "waiting"}) || f.Filter().Len() != 0 || f.Stats().Swaps != 0 || !errors.Is(f.Err(), fs.ErrNotExist) {
		t.Errorf("%+v, %d keys, %v", s, f.Filter().Len(), f.Err())
	}
	if swapped, err := f.Refresh(); swapped || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%t, %v", swapped, err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "there"), 0o777))
	must(t, os.WriteFile(path, []byte("no filter"), 0o666))
	eventually(t, "the error says what is wrong with the file", func() bool { return errors.Is(f.Err(), ErrCorrupt) })
	mustSayMaybe(t, f)
	built, err := Build(context.Background(), path, &Options{Overwrite: true}, numbers(0, 1000))
	must(t, err)
	built.Close()
	eventually(t, "the follower has the file", func() bool { return f.Err() == nil && f.Filter().Len() == 1000 })
	if f.ContainsString("absent") || f.Stats().Swaps != 1 {
		t.Errorf("an absent key gets \"maybe\", or there were %d swaps, not 1", f.Stats().Swaps)
	}
	mustServe(t, f, numbers(0, 1000))
}

// eventually waits until a condition holds, and fails after a time in which it must hold, however busy
// the machine is.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("still not: %s", what)
		}
	}
}
