package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestUniqManyLines checks that uniq prints each line the first time that it comes, even across two
// runs.
func TestUniqManyLines(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "", "create", "-n", "100k", "-p", "1e-8", "--seed", "1", "f.mmf")
	const n = 200_000
	random := rand.New(rand.NewPCG(1, 2))
	seen := make(map[int]bool)
	for range 2 {
		var in, want strings.Builder
		for range n / 2 {
			line := random.IntN(n / 3)
			fmt.Fprintln(&in, line)
			if !seen[line] {
				seen[line] = true
				fmt.Fprintln(&want, line)
			}
		}
		exit, stdout, stderr := runHere(strings.NewReader(in.String()), "uniq", "--filter", "f.mmf")
		if exit != 0 || stdout != want.String() {
			t.Fatalf("exit %d, %d bytes, want %d, %s", exit, len(stdout), want.Len(), stderr)
		}
	}
}

// manyLines returns n lines with the numbers from first on.
func manyLines(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, first+i)
	}
	return b.String()
}

// runAhead sets the clocks of the program and of its filters ahead, until back is called.
func runAhead(by func() time.Duration) (back func()) {
	clock = func() time.Time { return time.Now().Add(by()) }
	restore := osfile.SetClock(func() uint64 { return uint64(clock().UnixNano()) })
	return func() {
		restore()
		clock = time.Now
	}
}

// setClock sets the clocks ahead by the duration in ahead, which the test may change.
func setClock(t *testing.T) (ahead *atomic.Int64) {
	ahead = new(atomic.Int64)
	t.Cleanup(runAhead(func() time.Duration { return time.Duration(ahead.Load()) }))
	return ahead
}

// TestWindow checks that a run prints a typed line again once the window has passed. The age of a line
// begins with its commit, which comes at the next step of the window at the latest.
func TestWindow(t *testing.T) {
	ahead := setClock(t)
	f := typeTo(t, "uniq", "--window", "16h")
	for _, c := range []struct {
		ahead time.Duration
		line  string
		pass  bool
	}{
		{0, "a", true},
		{0, "b", true},
		{0, "a", false},
		{40 * time.Hour, "c", true}, // commits all lines before it
		{80 * time.Hour, "a", true},
		{80 * time.Hour, "a", false},
		{80 * time.Hour, "b", true}, // forgotten at the same time
		{120 * time.Hour, "d", true},
		{160 * time.Hour, "b", true},
	} {
		ahead.Store(int64(c.ahead))
		passes := ""
		if c.pass {
			passes = c.line + "\n"
		}
		f.ask(c.line+"\n"+c.line+"\n", passes)
		f.typed.Write(nil) // waits until the lines have been processed
	}
	f.endWith("", "", exitYes, "")
}

// TestWindowIsBounded checks that neither the filter nor its hashes grow without limit.
func TestWindowIsBounded(t *testing.T) {
	t.Chdir(t.TempDir())
	ahead := setClock(t)
	for i := range 4 {
		ahead.Store(int64(i) * int64(26*time.Hour))
		lines := manyLines(150_000*i, 150_000)
		if exit, stdout, stderr := runHere(strings.NewReader(lines), "uniq", "--window", "24h", "--filter", "f.mmf"); exit != 0 || len(stdout) < len(lines)-100 {
			t.Fatalf("exit %d, %d of %d bytes, %s", exit, len(stdout), len(lines), stderr)
		}
		filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
		noError(t, err)
		keys, capacity := filter.Len(), filter.Cap()
		filter.Close()
		info, err := os.Stat("f.mmf.hashes")
		noError(t, err)
		if keys > 150_000 || capacity > 800_000 || info.Size() > 1<<20+45*150_000 {
			t.Errorf("%d keys of %d, %d bytes of hashes", keys, capacity, info.Size())
		}
	}
}
