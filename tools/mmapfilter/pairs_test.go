package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestPairs pairs features that only the command has (resumed runs, uniq, and keys read as the filter
// records, here in hex) with every other feature: see mmapfilter/pairs.md. A filter gets half of its
// keys, then a feature is used, then the last run gets all keys. In the end, the filter must have each
// key once. If a resumed run says that something else has changed the filter, it must have added no key.
func TestPairs(t *testing.T) {
	for name, between := range betweenHalves {
		for _, last := range []string{"mmapfilter add --resume", "mmapfilter uniq --filter"} {
			t.Run(strings.TrimPrefix(last, "mmapfilter ")+" x "+name, func(t *testing.T) { testPair(t, last, between) })
		}
	}
}

// A between is what is done to f.mmf after half of the keys. If stops, no add can be resumed after it.
type between struct {
	commands string
	stops    bool
}

var betweenHalves = map[string]between{
	"KeepHashes":        {"mmapfilter verify f.mmf", false},
	"InsertUnique":      {"insert-unique", true},
	"InsertBatch":       {"insert-batch", true},
	"Delete":            {"mmapfilter del f.mmf -e 01", true},
	"ExpireBefore":      {"mmapfilter expire --older-than 1h f.mmf", false},
	"ExpireBefore, all": {"later 2h mmapfilter expire --older-than 1h f.mmf", true},
	"Merge":             {"mmapfilter merge -q -n 10k -o f.mmf f.mmf", false},
	"Distinct":          {"mmapfilter merge -q --distinct -o f.mmf f.mmf", false},
	"Rebuild":           {"mmapfilter grow -n 20k --layout packed f.mmf", false},
	"Build":             {"mmapfilter build -q --hex -n 10k -o f.mmf half", false},
	"Keys":              {"rebuild", false},
	"Repair":            {"mmapfilter checkpoint --seal f.mmf\nflip f.mmf 33000\nmmapfilter repair f.mmf", false},
	"DiscardLog":        {"dead f.mmf d.mmf\nrm d.mmf.stash\nmv d.mmf f.mmf\nmmapfilter recover --discard-log --yes f.mmf", false},
	"kill":              {"dead f.mmf d.mmf\nmv d.mmf f.mmf\nmv d.mmf.stash f.mmf.stash", true},
	"Seal":              {"mmapfilter checkpoint --seal f.mmf", false},
	"Sync":              {"mmapfilter checkpoint f.mmf", false},
	"Snapshot":          {"mmapfilter snapshot -q f.mmf -o c.mmf\nmmapfilter verify c.mmf", false},
	"Changes":           {"changes", false},
	"names":             {"mv f.mmf g.mmf\nmv f.mmf.hashes g.mmf.hashes\nlink g.mmf f.mmf", false},
	"short runs":        {"LAST f.mmf most\nLAST f.mmf most\nmmapfilter info f.mmf", false},
}

func testPair(t *testing.T, last string, b between) {
	t.Chdir(t.TempDir())
	const n = 200
	for name, n := range map[string]int{"half": n / 2, "most": n * 3 / 4, "all": n} {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "%02x\n", i)
		}
		noError(t, os.WriteFile(name, []byte(lines.String()), 0o666))
	}
	mustDo(t, "mmapfilter create -n 140 -p 1e-6 --seed 1 --hex --auto-grow f.mmf")
	mustDo(t, last+" f.mmf half")
	follower, err := mmapfilter.Follow("f.mmf", &mmapfilter.OpenOptions{FollowInterval: -1})
	noError(t, err)
	defer follower.Close()
	for _, line := range strings.Split(b.commands, "\n") {
		mustDo(t, strings.Replace(line, "LAST", last, 1))
	}
	out := doOne(t, last+" f.mmf all")
	if refused := strings.Contains(out, "omit --resume"); refused != (b.stops && strings.Contains(last, "resume")) || !refused && strings.Contains(out, "[exit") {
		t.Errorf("%s f.mmf all: %s", last, out)
	} else if refused {
		mustDo(t, "mmapfilter add --unique f.mmf all")
	}
	if !b.stops && strings.HasPrefix(out, "00\n") {
		t.Errorf("%s f.mmf all: uniq prints a line again: %s", last, out)
	}
	if out := doOne(t, "mmapfilter check -c f.mmf all"); out != fmt.Sprintf("%d\n", n) {
		t.Errorf("check: %s", out)
	}
	_, err = follower.Refresh()
	copied, err2 := mmapfilter.OpenReadOnly("f.mmf", &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyHeap})
	checked, err3 := mmapfilter.OpenReadOnly("f.mmf", &mmapfilter.OpenOptions{Checked: true})
	noError(t, errors.Join(err, err2, err3))
	defer copied.Close()
	defer checked.Close()
	for i := range n {
		key := []byte{byte(i)}
		if c := copied.Count(key); c != 1 || !copied.Contains(key) || !checked.Contains(key) || !follower.Contains(key) {
			t.Fatalf("key %d: %t, %t and %t, count %d", i, copied.Contains(key), checked.Contains(key), follower.Contains(key), c)
		}
	}
}

func mustDo(t *testing.T, line string) {
	t.Helper()
	if out := doOne(t, line); strings.Contains(out, "[exit") {
		t.Fatalf("%s: %s", line, out)
	}
}

// doOne runs a command of a script or one of programs, and returns the output.
func doOne(t *testing.T, line string) (out string) {
	t.Helper()
	args, err := splitArgs(line)
	switch {
	case err != nil:
	case programs[line] != nil:
		var f *mmapfilter.Filter
		if f, err = mmapfilter.Open("f.mmf", nil); err == nil {
			err = errors.Join(programs[line](f), f.Close())
		}
	default:
		out, err = command(args, "other\n")
	}
	noError(t, err)
	return out
}

// programs has what only a Go program can do with the filter.
var programs = map[string]func(f *mmapfilter.Filter) error{
	"delete": func(f *mmapfilter.Filter) error { _, err := f.Delete([]byte("base")); return err },
	"number": func(f *mmapfilter.Filter) error { return f.SyncAt(17) },
	"sync":   (*mmapfilter.Filter).Sync,
	"changes": func(f *mmapfilter.Filter) error {
		_, err := f.Changes(context.Background(), io.Discard, f.Position())
		return err
	},
	"insert-unique": func(f *mmapfilter.Filter) error { _, err := f.InsertUnique([]byte("other")); return err },
	"insert-batch":  func(f *mmapfilter.Filter) error { _, err := f.InsertBatch([][]byte{[]byte("other")}); return err },
	"rebuild": func(f *mmapfilter.Filter) error {
		return f.Rebuild(context.Background(), &mmapfilter.RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) {
			return func(yield func([]byte, error) bool) {
				for i := 0; i < 100 && yield([]byte{byte(i)}, nil); i++ { // the keys of the first half
				}
			}, nil
		}})
	},
}
