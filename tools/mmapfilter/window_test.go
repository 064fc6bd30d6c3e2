package main

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// setClock makes the clock of the program run ahead, by as much as the result holds.
func setClock(t *testing.T) (ahead *atomic.Int64) {
	ahead = new(atomic.Int64)
	clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	t.Cleanup(func() { clock = time.Now })
	return ahead
}

// TestWindow checks when typed lines pass again: not before the window has passed, and soon after
// that, if other lines pass.
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
		{15 * time.Hour, "c", true}, // its time is that of the system, as of all lines
		{15*time.Hour + 59*time.Minute, "a", false},
		{16*time.Hour + time.Minute, "a", true},
		{16*time.Hour + 2*time.Minute, "b", true}, // forgotten at the same time
		{16*time.Hour + 3*time.Minute, "b", false},
		{17*time.Hour + 59*time.Second, "b", false}, // not yet the next step
		{17*time.Hour + 2*time.Minute, "b", true},
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

// TestWindowIsBounded checks that neither the filter nor its hashes go on growing.
func TestWindowIsBounded(t *testing.T) {
	t.Chdir(t.TempDir())
	ahead := setClock(t)
	for i := range 4 {
		ahead.Store(int64(i) * int64(25*time.Hour))
		lines := manyLines(150_000*i, 150_000)
		if exit, stdout, stderr := runHere(strings.NewReader(lines), "uniq", "--window", "24h", "--filter", "f.mmf"); exit != 0 || len(stdout) < len(lines)-100 {
			t.Fatalf("exit %d, %d of %d bytes, %s", exit, len(stdout), len(lines), stderr)
		}
		filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
		if err != nil {
			t.Fatal(err)
		}
		keys, capacity := filter.Len(), filter.Cap()
		filter.Close()
		info, err := os.Stat("f.mmf.hashes")
		if err != nil {
			t.Fatal(err)
		}
		if keys > 150_000 || capacity > 800_000 || info.Size() > hashesAnyway+hashesPerLine*150_000 {
			t.Errorf("%d keys of %d, %d bytes of hashes", keys, capacity, info.Size())
		}
	}
}
