package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"testing"
)

// TestBuildLeavesNothingBehind makes Build fail in each way that a test can cause, and checks
// the directory, the older file, descriptors and goroutines.
func TestBuildLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	old := image(t, nil, numbers(0, 10))
	must(t, os.WriteFile(path, old, 0o600))
	broken := errors.New("unexpected EOF in part.gz")
	failing := func(after uint64) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for key := range numbers(0, after) {
				if !yield(key, nil) {
					return
				}
			}
			yield(nil, broken)
		}
	}
	cancelled, cancel := context.WithCancelCause(context.Background())
	why := errors.New("the user has pressed ^C")
	cancel(why)
	cancelAt := func(stage string, done uint64) (context.Context, *Options) {
		ctx, cancel := context.WithCancelCause(context.Background())
		return ctx, &Options{Capacity: 400_000, Progress: func(s string, n, _ uint64) {
			if s == stage && n >= done {
				cancel(why)
			}
		}}
	}
	background := context.Background()
	before := leaks(t)
	check := func(name string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, not %v", name, err, want)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, old) {
			t.Fatalf("%s: the older file has %d bytes, %v", name, len(got), err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Fatalf("%s: left %v, %v", name, entries, err)
		}
	}
	for _, n := range []uint64{0, 1, 5000, 300_000} {
		for _, budget := range []int64{0, 1 << 20} {
			_, err := Build(background, path, &Options{MemoryBudget: budget}, failing(n))
			check(fmt.Sprintf("an error after %d keys", n), err, broken)
		}
	}
	_, err := Build(cancelled, path, nil, numbers(0, 100_000))
	check("cancelled before", err, why)
	_, err = Build(cancelled, path, nil, numbers(0, 0))
	check("cancelled before, no keys", err, why)
	for _, stage := range []string{"hash", "fill", "place", "check"} {
		ctx, opts := cancelAt(stage, 1)
		_, err = Build(ctx, path, opts, numbers(0, 400_000))
		check("cancelled in "+stage, err, why)
	}
	_, err = Build(background, path, &Options{Capacity: 100}, numbers(0, 100_000))
	check("full", err, ErrFull)
	_, err = Build(background, path, &Options{Capacity: 1 << 62}, numbers(0, 1))
	var option *OptionError
	if !errors.As(err, &option) || option.Field != "Capacity" {
		t.Errorf("a capacity of 2^62: %v", err)
	}
	check("a capacity of 2^62", err, err)
	_, err = Build(background, path, &Options{FalsePositiveRate: 2}, numbers(0, 1))
	check("bad options", err, err)
	func() {
		defer func() {
			check(fmt.Sprint("a panic of the sequence: ", recover()), nil, nil)
		}()
		Build(background, path, nil, func(yield func([]byte, error) bool) {
			yield([]byte("a"), nil)
			panic("mine")
		})
	}()
	if after := leaks(t); after != before {
		t.Errorf("before: %s; after: %s", before, after)
	}
}

// TestBuildLeavesNoOverflows cancels Build while it fills, with a budget so small that the items
// whose lines are full are already in a file.
func TestBuildLeavesNoOverflows(t *testing.T) {
	dir := t.TempDir()
	before := leaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Build(ctx, filepath.Join(dir, "f"), &Options{MemoryBudget: 1 << 20, FalsePositiveRate: 1e-8, Capacity: 3_000_000, Progress: func(stage string, done, total uint64) {
		if stage == "fill" && done == total {
			cancel()
		}
	}}, numbers(0, 3_000_000))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if after := leaks(t); after != before {
		t.Errorf("before: %s; after: %s", before, after)
	}
}

// TestBuildPassesPanicsOn: a panic of the Progress function, in any stage, reaches the caller
// and leaves nothing behind.
func TestBuildPassesPanicsOn(t *testing.T) {
	dir := t.TempDir()
	before := leaks(t)
	for _, stage := range []string{"hash", "count", "fill", "place", "check"} {
		func() {
			defer func() {
				if r := recover(); r != stage {
					t.Errorf("%s: recovered %v", stage, r)
				}
			}()
			Build(context.Background(), filepath.Join(dir, "f"), &Options{Distinct: true, Progress: func(s string, _, _ uint64) {
				if s == stage {
					panic(stage)
				}
			}}, numbers(0, 300_000))
		}()
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	if after := leaks(t); after != before {
		t.Errorf("before: %s; after: %s", before, after)
	}
}

// TestBuildCancelledFirst: a Build that starts cancelled asks for no key.
func TestBuildCancelledFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Build(ctx, filepath.Join(t.TempDir(), "f"), &Options{Capacity: 1 << 40}, func(func([]byte, error) bool) { t.Error("asked for keys") })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestBuildWhereItCannot(t *testing.T) {
	dir := t.TempDir()
	if _, err := Build(context.Background(), filepath.Join(dir, "none", "f"), nil, numbers(0, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	if _, err := Build(context.Background(), dir, nil, numbers(0, 1)); err == nil {
		t.Error("over a directory")
	}
}

// TestBuildTakesTheLock: Build does not replace a file that a writer has open, and a Build in
// progress keeps writers away from the file.
func TestBuildTakesTheLock(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 10))
	inside := false
	_, err := Build(context.Background(), path, nil, func(yield func([]byte, error) bool) {
		inside = true
		if _, err := Build(context.Background(), path, nil, numbers(0, 20)); !errors.Is(err, ErrLocked) {
			t.Errorf("a build inside a build: %v", err)
		}
		yield([]byte("a"), nil)
	})
	if err != nil || !inside {
		t.Fatal(err)
	}
	f, err := Build(context.Background(), path, nil, numbers(0, 30))
	if err != nil || f.Len() != 30 {
		t.Errorf("afterwards: %v", err)
	}
}

// TestBuildReplacesUnderReaders: readers that have the older file open keep it.
func TestBuildReplacesUnderReaders(t *testing.T) {
	reader, path := mustBuild(t, nil, numbers(0, 1000))
	f, err := Build(context.Background(), path, nil, numbers(5000, 9000))
	must(t, err)
	defer f.Close()
	if found, _ := countFound(reader, numbers(0, 1000)); found != 1000 {
		t.Errorf("the older filter has %d of its 1,000 keys", found)
	}
	if found, _ := countFound(f, numbers(5000, 9000)); found != 4000 {
		t.Errorf("the newer filter has %d of its 4,000 keys", found)
	}
}
