//go:build faults && linux

package mmapfilter

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestOrderOfCalls checks which writing calls each step in the life of a file makes. It covers W7:
// opening for writing writes nothing, whatever the state of the file. The first change takes a few
// syncs, and later changes take none. Package recovery tests the functions that make the calls; this
// test checks that they are called.
//
//	go test -tags faults ./mmapfilter -run TestOrderOfCalls -v
func TestOrderOfCalls(t *testing.T) {
	const (
		publish = "msync fsync rename remove remove syncdir"
		none    = "^$"
	)
	path := filepath.Join(t.TempDir(), "f")
	var f *Filter
	build := func() (err error) {
		f, err = Build(context.Background(), path, nil, numbers(0, 1000))
		return err
	}
	open := func() (err error) { f, err = Open(path, &OpenOptions{CommitInterval: -1}); return err }
	insert := func() error { f.Contains([]byte("a")); return f.InsertHash(1) }
	end := func() error { return f.Close() }
	dead := func() error { path = copyFilter(t, path); return nil }
	for i, c := range []struct {
		name  string
		do    func() error
		calls string // a regular expression
	}{
		{"Build", build, publish + "$"},
		{"close the built filter", end, none},
		{"Build in place of a file", build, publish + " write$"}, // supersedes the old file
		{"close it", end, none},
		{"open a sealed file", open, none},
		{"the first Insert", insert, "msync rename syncdir$"}, // the sync of the superblock, and the name of the log
		{"another Insert", insert, none},
		{"Sync", func() error { return f.Sync() }, "^f(data)?sync$"},
		{"close after changes", end, "sync"},
		{"open a clean file", open, none},
		{"close without a change", end, none},
		{"open again", open, none},
		{"the first Insert again", insert, "msync rename syncdir$"},
		{"a death", dead, none},
		{"recover", open, "sync"},
		{"close the recovered filter", end, none},
		{"Create", func() (err error) {
			path = filepath.Join(t.TempDir(), "created")
			f, err = Create(path, &Options{Capacity: 1000, CommitInterval: -1})
			return err
		}, publish + "$"},
	} {
		var calls []string
		fault.Hook = func(call string) error {
			calls = append(calls, call)
			if c.name == "recover" && served(t, path) { // R3: readers must not use the file yet
				t.Errorf("served at %s, call %d of a recovery", call, len(calls))
			}
			return nil
		}
		err := c.do()
		fault.Hook = nil
		must(t, err)
		made := strings.Join(calls, " ")
		if !regexp.MustCompile(c.calls).MatchString(made) || c.name != "recover" && strings.Count(made, "sync") > 10 {
			t.Errorf("%d, %s: %q, not %q", i, c.name, made, c.calls)
		}
		if c.name == "recover" && (!f.Stats().Recovery.Recovered || !served(t, path)) {
			t.Errorf("%+v, served: %t", f.Stats().Recovery, served(t, path))
		}
	}
	must(t, f.Close())
}
