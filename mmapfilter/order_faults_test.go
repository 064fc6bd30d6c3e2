//go:build faults && linux

package mmapfilter

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestOrderOfCalls checks the calls that Build, Create and a first Insert end with. Package
// recovery tests the functions that make the calls; this test checks that they are called.
//
//	go test -tags faults ./mmapfilter -run TestOrderOfCalls -v
func TestOrderOfCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	publish := []string{"msync", "fsync", "rename", "remove", "remove", "syncdir"}
	build := func() (*Filter, error) {
		return Build(context.Background(), path, nil, numbers(0, 1000))
	}
	opened := func() (*Filter, error) { return Open(path, &OpenOptions{CommitInterval: -1}) }
	for _, c := range []struct {
		name string
		do   func() (*Filter, error)
		last []string
	}{
		{"Build", build, publish},
		{"Build in place of a file", build, append(slices.Clone(publish), "write")}, // the mark of the old one
		{"the first Insert", func() (*Filter, error) {
			f, err := opened()
			if err == nil {
				err = f.InsertHash(1)
			}
			return f, err
		}, []string{"msync", "rename", "syncdir"}}, // the sync of the superblock, and the name of the log
		{"Create", func() (*Filter, error) {
			path = filepath.Join(t.TempDir(), "created")
			return Create(path, &Options{Capacity: 1000, CommitInterval: -1})
		}, publish},
	} {
		var calls []string
		fault.Hook = func(call string) error {
			calls = append(calls, call)
			return nil
		}
		f, err := c.do()
		fault.Hook = nil
		must(t, err)
		must(t, f.Close())
		if n := len(calls) - len(c.last); n < 0 || !slices.Equal(calls[n:], c.last) {
			t.Errorf("%s ends with %q, not with %q", c.name, calls[max(len(calls)-10, 0):], c.last)
		}
	}
}

// TestServedAfterRecovery covers R3: while a file is being recovered, at every writing call,
// readers are not told that they may use it.
func TestServedAfterRecovery(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	insertAll(t, f, hashes(8, 100))
	dead := abandon(t, f, path)
	calls := 0
	fault.Hook = func(call string) error {
		if calls++; served(t, dead) {
			t.Errorf("served at %s, call %d of a recovery", call, calls)
		}
		return nil
	}
	g, err := Open(dead, &OpenOptions{CommitInterval: -1})
	fault.Hook = nil
	must(t, err)
	defer g.Close()
	if calls == 0 || !g.Stats().Recovery.Recovered || !served(t, dead) {
		t.Errorf("%d calls, %+v, served: %t", calls, g.Stats().Recovery, served(t, dead))
	}
}
