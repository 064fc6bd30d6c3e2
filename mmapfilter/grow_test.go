package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestInsertInKeys covers K5: an insert that finds no room while a Rebuild from Keys goes on, which
// waits for it, ends with the context of the Rebuild, or with the filter.
func TestInsertInKeys(t *testing.T) {
	for name, want := range map[string]error{"cancel": context.Canceled, "close": ErrClosed} {
		f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
		mustInsert(t, f, 0, 800)
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan error, 1)
		var failed error
		err := f.Rebuild(ctx, &RebuildOptions{Capacity: 100_000, Keys: func() (iter.Seq2[[]byte, error], error) {
			return func(yield func([]byte, error) bool) {
				if name == "cancel" {
					cancel()
				} else {
					go func() { closed <- f.Close() }()
				}
				for key := range numbers(1000, 1<<20) {
					if failed = f.Insert(key); failed != nil {
						break
					}
				}
				yield(nil, failed)
			}, nil
		}})
		if !errors.Is(failed, want) || name == "cancel" && !errors.Is(failed, ErrFull) || !errors.Is(err, want) {
			t.Errorf("%s: the insert: %v; Rebuild: %v", name, failed, err)
		}
		cancel()
		if name == "close" {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
	}
}

// TestInsertAtClose covers K5: Close ends a growth that an insert waits for; the insert says that the
// filter is closed, and OnError hears nothing.
func TestInsertAtClose(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 50, AutoGrow: true})
	f.Close()
	f, err := Open(path, &OpenOptions{OnError: func(err error) { t.Errorf("reported: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	f.growth.Lock() // the growth waits
	failed := make(chan error)
	go func() {
		for key := range numbers(0, 1<<20) {
			if err := f.Insert(key); err != nil {
				failed <- err
				return
			}
		}
	}()
	for full := false; !full; runtime.Gosched() {
		f.growth.auto.Lock()
		full = f.growth.auto.done != nil
		f.growth.auto.Unlock()
	}
	closed := make(chan error)
	go func() { closed <- f.Close() }()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	f.growth.Unlock()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestGrowsAfterShrinking covers K5: that a filter of many copies cannot shrink keeps no insert from the
// growth that makes room for it.
func TestGrowsAfterShrinking(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	a := &f.growth.auto
	a.failed, a.failedAt, a.failedTime, a.took = errCopies, 0, time.Now(), time.Hour
	for n := uint64(0); f.Cap() == 1000; n++ {
		if a.failedAt = f.Len(); a.failed == nil { // it has begun to grow before it was full
			a.failed = errCopies
		}
		mustInsert(t, f, n, n+1)
	}
}

// TestGrowsAfterAnother covers K5: a rebuild that was due for another reason, or has made room in the
// place of an earlier file, keeps no insert from the growth that makes room in this one.
func TestGrowsAfterAnother(t *testing.T) {
	for name, full := range map[string]*openFile{"another reason": nil, "an earlier file": new(openFile)} {
		t.Run(name, func(t *testing.T) {
			f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
			a, w := &f.growth.auto, writerOf(f)
			for n := range uint64(1 << 20) {
				if err := w.Insert(spread(int(n))); err != nil {
					break
				}
			}
			another := make(chan struct{})
			a.done, a.full = another, full
			done := make(chan error)
			go func() { done <- f.Insert(first(1)) }()
			for range 10_000 { // until it waits
				runtime.Gosched()
			}
			a.Lock()
			a.done = nil
			a.Unlock()
			close(another)
			if err := <-done; err != nil || f.Cap() == 1000 {
				t.Errorf("capacity %d, %v", f.Cap(), err)
			}
		})
	}
}

// TestGrownByAnother covers K5: an insert that waits for room goes on when another rebuild has made it,
// even if the growth goes on.
func TestGrownByAnother(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	a, w := &f.growth.auto, writerOf(f)
	for n := range uint64(1 << 20) {
		if err := w.Insert(spread(int(n))); err != nil {
			break
		}
	}
	growth := make(chan struct{})
	a.done, a.full = growth, f.open.Load()
	done := make(chan error)
	go func() { done <- f.Insert(first(1)) }()
	for range 10_000 { // until it waits
		runtime.Gosched()
	}
	if err := f.Rebuild(t.Context(), &RebuildOptions{Capacity: 10_000}); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	a.Lock()
	a.done = nil
	a.Unlock()
}

// TestPanicInRebuild: a panic of the caller's function ends a Rebuild as an error does.
func TestPanicInRebuild(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	mustInsert(t, f, 0, 500)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		f.Rebuild(t.Context(), &RebuildOptions{capacityFor: func(uint64) uint64 { panic("a bug of the caller") }})
	}()
	if list, _ := filepath.Glob(path + "*"); len(list) != 3 {
		t.Errorf("left %v", list)
	}
	if err := f.Rebuild(t.Context(), nil); err != nil {
		t.Error(err)
	}
	mustHave(t, f, 0, 500)
}

// TestTimesGoOn covers K2 and K6: what replaces a file has no earlier times, even if the clock was set
// back.
func TestTimesGoOn(t *testing.T) {
	for name, replace := range map[string]func(f *Filter, path string) (*Filter, error){
		"rebuild": func(f *Filter, path string) (*Filter, error) {
			return f, f.Rebuild(t.Context(), &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, 1), nil }})
		},
		"build": func(f *Filter, path string) (*Filter, error) {
			f.Close()
			built, err := Build(t.Context(), path, nil, numbers(0, 1))
			if err != nil {
				return nil, err
			}
			built.Close()
			return Open(path, nil)
		},
	} {
		now := uint64(1_700_000_000e9)
		defer osfile.SetClock(func() uint64 { return now })()
		f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
		mustInsert(t, f, 0, 1)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		before := time.Unix(0, int64(now-60e9))
		now -= 3600e9
		f, err := replace(f, path)
		if err != nil {
			t.Fatal(err)
		}
		mustInsert(t, f, 1, 2)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		now += 3600e9
		if n, err := f.ExpireBefore(t.Context(), before); n != 0 || err != nil {
			t.Errorf("%s: %d have expired, %v", name, n, err)
		}
		mustHave(t, f, 0, 2)
		f.Close()
	}
}

// TestUnusedLog covers W8: a log that a killed process has made, and never used, does not keep a filter
// from being opened, and goes.
func TestUnusedLog(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	mustInsert(t, f, 0, 10)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	copied := abandon(t, f, path)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"killed": copied, "closed": path} {
		next := path + ".stash.new"
		if err := os.WriteFile(next, make([]byte, wal.MinBytes), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Recover(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(next); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the log is left: %v", name, err)
		}
	}
}

// TestLogOfAMovedFilter: what is done to a file that has the name of one whose writer died spares the
// log of that one.
func TestLogOfAMovedFilter(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string) error{
		"insert": func(t *testing.T, path string) error {
			f := openQuiet(t, path, nil)
			mustInsert(t, f, 20, 30)
			return f.Close()
		},
		"Build": func(t *testing.T, path string) error {
			f, err := Build(context.Background(), path, nil, numbers(0, 20))
			return errors.Join(err, f.Close())
		},
		"Install": func(t *testing.T, path string) error { return install(path, path+".installed") },
	} {
		t.Run(name, func(t *testing.T) {
			path := deadWriter(t, 10, 10)
			moved := path + ".moved"
			_, other := mustBuild(t, nil, numbers(0, 20))
			if err := errors.Join(os.Rename(path, moved), os.Rename(other, path)); err != nil {
				t.Fatal(err)
			}
			if err := change(t, path); err != nil {
				t.Fatal(err)
			}
			logs, _ := filepath.Glob(path + ".stash*")
			if len(logs) != 1 {
				t.Fatalf("logs %v", logs)
			}
			if err := os.Rename(logs[0], moved+".stash"); err != nil {
				t.Fatal(err)
			}
			f := openQuiet(t, moved, nil)
			for i := range 10 {
				if !f.ContainsHash(spread(i)) {
					t.Errorf("key %d is lost", i)
				}
			}
		})
	}
}

// TestLogIsSetAsideAgain: the name for it is taken by a log that was left there before, or by the very
// log, which a process that died has linked.
func TestLogIsSetAsideAgain(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 20))
	dead := deadWriter(t, 10, 10)
	for _, left := range []func(from, to string) error{os.Rename, os.Link, func(from, to string) error { return os.Rename(dead+".stash", to) }} {
		logs, _ := filepath.Glob(path + ".stash.*")
		if logs = append(logs, dead+".stash"); len(logs) == 1 {
			copyFile(t, dead+".copy", dead+".stash")
			logs[0] = dead + ".copy"
		}
		if err := left(logs[0], path+".stash"); err != nil {
			t.Fatal(err)
		}
		f := openQuiet(t, path, nil)
		if err := errors.Join(f.Insert([]byte("key")), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if logs, _ := filepath.Glob(path + ".stash*"); len(logs) != 2 {
		t.Errorf("logs %v", logs)
	}
}
